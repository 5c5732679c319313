// What a rank is told before it can ask, and what is no such message.
#include "rankd/control/bootstrap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "core/files/file.h"
#include "core/status/error.h"
#include "proto/control.pb.h"
#include "rankd/control/control_messages.h"
#include "rankd/control/session.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

control::Bootstrap whole_message() {
  control::Bootstrap message;
  message.set_coordinator_address("10.0.0.1:4242");
  message.set_token(std::string("a\0b", 3));
  message.set_rank(3);
  message.set_world_size(8);
  message.set_epoch(5);
  message.set_run_dir("/runs/one");
  message.set_launcher_pid(77);
  message.set_config_digest("digest");
  message.set_ca_certificate("authority");
  message.set_certificate("certificate");
  message.set_private_key("key");
  message.set_coordinator_name("name.invalid");
  message.set_data_address("10.0.0.2");
  message.set_memory_fd(4);
  return message;
}

std::string with_length(const std::string& bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  std::string out;
  for (const int shift : {0, 8, 16, 24}) out += static_cast<char>(size >> shift & 0xFF);
  return out + bytes;
}

struct PipeEnds {
  Fd read;
  Fd write;
};

PipeEnds make_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// As if `bytes` came on standard input, and then its end.
Bootstrap read_from(const std::string& bytes) {
  signal(SIGPIPE, SIG_IGN);  // the reader may have had enough
  PipeEnds pipe = make_pipe();
  std::thread writer([&, write_end = std::move(pipe.write)] {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = write(write_end.get(), bytes.data() + done, bytes.size() - done);
      if (wrote <= 0) return;
      done += static_cast<size_t>(wrote);
    }
  });
  struct Joined {
    std::thread& thread;
    ~Joined() { thread.join(); }
  } joined{writer};
  Fd read_end = std::move(pipe.read);
  struct Closed {  // before the writer is waited for, which may still want to write
    Fd& fd;
    ~Closed() { fd = Fd(); }
  } closed{read_end};
  return read_bootstrap(read_end.get());
}

}  // namespace

TEST_CASE("a bootstrap arrives as it was sent", "[rankd]") {
  const Bootstrap read = read_from(with_length(whole_message().SerializeAsString()));
  CHECK(read.coordinator_address == "10.0.0.1:4242");
  CHECK(read.token == std::string("a\0b", 3));
  CHECK(read.rank == 3);
  CHECK(read.world_size == 8);
  CHECK(read.epoch == 5);
  CHECK(read.run_dir == "/runs/one");
  CHECK(read.launcher_pid == 77);
  CHECK(read.config_digest == "digest");
  CHECK(read.ca_certificate == "authority");
  CHECK(read.certificate == "certificate");
  CHECK(read.private_key == "key");
  CHECK(read.coordinator_name == "name.invalid");
  CHECK(read.data_address == "10.0.0.2");
  CHECK(read.memory_fd == 4);
}

TEST_CASE("a rank that inherits no memory is told of none", "[rankd]") {
  control::Bootstrap message = whole_message();
  message.clear_memory_fd();
  CHECK(read_from(with_length(message.SerializeAsString())).memory_fd == -1);
}

TEST_CASE("what follows a bootstrap is left unread, because it is not for us", "[rankd]") {
  PipeEnds pipe = make_pipe();
  const std::string text = with_length(whole_message().SerializeAsString()) + "more";
  REQUIRE(write(pipe.write.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  CHECK(read_bootstrap(pipe.read.get()).rank == 3);
  std::string rest(4, '\0');
  REQUIRE(read(pipe.read.get(), rest.data(), rest.size()) == 4);
  CHECK(rest == "more");
}

TEST_CASE("what is no bootstrap is refused with what to do instead", "[rankd]") {
  const std::string whole = with_length(whole_message().SerializeAsString());
  std::vector<std::string> bad{"", "x", "hello, rankd\n", std::string(2000, '\xff'),
                               std::string("\x05\0\0\0\xff\xff\xff\xff\xff", 9)};
  for (size_t length = 0; length < whole.size(); length += 7)
    bad.push_back(whole.substr(0, length));
  for (const std::string& bytes : bad) {
    INFO(bytes.size() << " bytes");
    CHECK_THROWS_AS(read_from(bytes), UsageError);
    CHECK_THROWS_WITH(read_from(bytes), Catch::Contains("use `dslaunch train.json`"));
  }
}

TEST_CASE("a message of any length is read, up to the largest that is allowed", "[rankd]") {
  control::Bootstrap message = whole_message();
  constexpr size_t kMost = 1 << 20;
  message.set_run_dir("");
  const size_t rest = message.ByteSizeLong();
  message.set_run_dir(std::string(kMost - rest - 4, 'x'));  // 4: its own tag and length
  while (message.ByteSizeLong() < kMost) message.mutable_run_dir()->push_back('x');
  REQUIRE(message.ByteSizeLong() == kMost);
  CHECK(read_from(with_length(message.SerializeAsString())).run_dir == message.run_dir());
  message.mutable_run_dir()->push_back('x');
  CHECK_THROWS_AS(read_from(with_length(message.SerializeAsString())), UsageError);
}

TEST_CASE("secrets of a bootstrap can be wiped, and nothing else goes", "[rankd]") {
  Bootstrap bootstrap = read_from(with_length(whole_message().SerializeAsString()));
  wipe_secrets(bootstrap);
  CHECK(bootstrap.token.find_first_not_of('\0') == std::string::npos);
  CHECK(bootstrap.private_key.find_first_not_of('\0') == std::string::npos);
  CHECK(bootstrap.certificate == "certificate");
}

TEST_CASE("a rank whose launcher is gone already does not begin", "[rankd]") {
  CHECK_NOTHROW(die_with_launcher(0));  // nobody to die with
  CHECK_THROWS_AS(die_with_launcher(getpid()), CommError);
  CHECK_THROWS_WITH(die_with_launcher(getpid()),
                    fmt::format("rankd: the launcher (pid {}) is gone", getpid()));
  prctl(PR_SET_PDEATHSIG, 0);  // of this process, which goes on
}

TEST_CASE("every command of the launcher has its meaning, and a newer one's has none", "[rankd]") {
  using Message = control::CommandMessage;
  CHECK(to_command(Message::STOP_AND_SAVE) == Command::kStopAndSave);
  CHECK(to_command(Message::SAVE_NOW) == Command::kSaveNow);
  CHECK(to_command(Message::PAUSE) == Command::kPause);
  CHECK(to_command(Message::RESUME) == Command::kResume);
  CHECK_FALSE(to_command(static_cast<Message::Kind>(99)));
  CHECK(to_origin(ErrorOrigin::kNone) == control::FinalReport::NONE);
  CHECK(to_origin(ErrorOrigin::kOwn) == control::FinalReport::OWN);
  CHECK(to_origin(ErrorOrigin::kPeer) == control::FinalReport::PEER);
}

TEST_CASE("no field of a plan is lost on its way to the rank", "[rankd]") {
  control::JobPlan sent;  // another value in every field, so that one read from its neighbour shows
  sent.set_rank(101);
  sent.set_world_size(102);
  sent.set_local_rank(103);
  sent.set_local_size(104);
  sent.set_epoch(105);
  sent.set_threads(106);
  sent.set_oldest_tag_epoch(107);
  sent.set_committed_step(108);
  sent.set_told_step(109);
  sent.set_config_text("of config_text");
  sent.set_config_dir("of config_dir");
  sent.set_run_dir("of run_dir");
  sent.set_backend("of backend");
  sent.set_shm_name("of shm_name");
  sent.set_committed_by("of committed_by");
  sent.set_progress("of progress");
  sent.set_claim("of claim");
  sent.set_data_secret("of data_secret");
  sent.add_data_endpoints("10.0.0.1:1");
  sent.add_data_endpoints("10.0.0.2:2");
  sent.set_accept_changes(true);
  sent.set_audit_samples(true);
  sent.set_resume(control::JobPlan::NEVER);
  CHECK(to_job_plan(sent).device == Device::cpu());  // nobody said where
  sent.mutable_device()->set_kind(control::Device::CUDA);
  sent.mutable_device()->set_index(3);
  const JobPlan plan = to_job_plan(sent);
  CHECK(plan.rank == sent.rank());
  CHECK(plan.world_size == sent.world_size());
  CHECK(plan.local_rank == sent.local_rank());
  CHECK(plan.local_size == sent.local_size());
  CHECK(plan.epoch == sent.epoch());
  CHECK(plan.claim == "of claim");
  CHECK(plan.threads == sent.threads());
  CHECK(plan.config_text == "of config_text");
  CHECK(plan.config_dir == "of config_dir");
  CHECK(plan.run_dir == "of run_dir");
  CHECK(plan.resume == ResumeMode::kNever);
  CHECK(plan.oldest_tag_epoch == sent.oldest_tag_epoch());
  CHECK(plan.committed_step == sent.committed_step());
  CHECK(plan.committed_by == "of committed_by");
  CHECK(plan.progress == "of progress");
  CHECK(plan.accept_changes);
  CHECK(plan.told_step == sent.told_step());
  CHECK(plan.audit_samples);
  CHECK(plan.device == Device::cuda(3));
  CHECK(plan.backend == "of backend");
  CHECK(plan.shm_name == "of shm_name");
  CHECK(plan.tcp.endpoints == std::vector<std::string>{"10.0.0.1:1", "10.0.0.2:2"});
  CHECK(plan.tcp.secret == "of data_secret");
}

}  // namespace ds
