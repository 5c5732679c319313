// Who may call what: every call with every wrong role is refused, and a good rank still gets in.
#include <grpcpp/grpcpp.h>

#include <limits>

#include "proto/control.grpc.pb.h"
#include "tests/launcher/raw_tls.h"
#include "tests/launcher/tls_plane.h"

namespace ds {
namespace {

using grpc::StatusCode;

constexpr int64_t kOldEpoch = TlsPlane::kEpoch - 1;

// A rank that may say anything, on a connection with any certificate.
class LooseRank {
 public:
  LooseRank(const TlsPlane& plane, const TlsIdentity& identity)
      : LooseRank(plane.endpoint(), plane.authority().certificate(), identity) {}
  LooseRank(const std::string& endpoint, const std::string& root, const TlsIdentity& identity) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = root;
    options.pem_cert_chain = identity.certificate;
    options.pem_private_key = identity.private_key;
    stub_ = control::Control::NewStub(
        grpc::CreateCustomChannel("ipv4:" + endpoint, grpc::SslCredentials(options), arguments()));
  }
  explicit LooseRank(const std::string& endpoint)
      : stub_(control::Control::NewStub(grpc::CreateCustomChannel(
            "ipv4:" + endpoint, grpc::InsecureChannelCredentials(), arguments()))) {}

  grpc::Status join(int rank, int64_t epoch, const std::string& token) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    control::JoinRequest request;
    fill(*request.mutable_identity(), rank, epoch, token);
    request.set_build_id(build_id());
    request.set_protocol_version(kProtocolVersion);
    request.set_config_digest("digest");
    return stub_->Join(&context, request, &reply_);
  }
  const std::string& session() const { return reply_.session(); }

  grpc::Status attend(const control::RankMessage& first) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    const auto stream = stub_->Attend(&context);
    stream->Write(first);
    control::CommandMessage command;
    stream->Read(&command);
    return stream->Finish();
  }
  grpc::Status attend(int rank, int64_t epoch, const std::string& session) {
    control::RankMessage hello;
    fill(*hello.mutable_hello(), rank, epoch, session);
    return attend(hello);
  }

 private:
  static void fill(control::Identity& out, int rank, int64_t epoch, const std::string& token) {
    out.set_rank(rank);
    out.set_epoch(epoch);
    out.set_token(token);
  }
  static grpc::ChannelArguments arguments() {
    grpc::ChannelArguments out;
    out.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return out;
  }

  std::unique_ptr<control::Control::Stub> stub_;
  control::JoinReply reply_;
};

// Connections may also be dropped unread after too many failures; never are they served.
bool is_refusal(const grpc::Status& status) {
  return status.error_code() == StatusCode::PERMISSION_DENIED ||
         status.error_code() == StatusCode::UNAVAILABLE;
}

}  // namespace

TEST_CASE("without a certificate of this job nobody is heard", "[launcher][security]") {
  TlsPlane plane;
  const JobAuthority other_job(JobAuthority::WallClock::now());
  const std::string& root = plane.authority().certificate();
  const std::string token = TlsPlane::token_of(0);
  const auto status_of = [&](LooseRank rank) {
    return rank.join(0, TlsPlane::kEpoch, token).error_code();
  };
  CHECK(status_of(LooseRank(plane.endpoint())) == StatusCode::UNAVAILABLE);  // in clear
  CHECK(status_of(LooseRank(plane.endpoint(), root, TlsIdentity())) == StatusCode::UNAVAILABLE);
  CHECK(status_of(LooseRank(plane.endpoint(), root, other_job.certify_rank(TlsPlane::kEpoch, 0))) ==
        StatusCode::UNAVAILABLE);
  CHECK(status_of(LooseRank(plane, plane.authority().certify_coordinator({"127.0.0.1"}))) ==
        StatusCode::UNAVAILABLE);
  CHECK(plane.coordinator().take_events().empty());
  CHECK(plane.coordinator().strangers_turned_away() >= 1);
  plane.check_open(0);
}

TEST_CASE("a rank believes only the coordinator of its job", "[rankd][security]") {
  TlsPlane plane;
  const JobAuthority other_job(JobAuthority::WallClock::now());
  LooseRank rank(plane.endpoint(), other_job.certificate(),
                 plane.authority().certify_rank(TlsPlane::kEpoch, 0));
  CHECK(rank.join(0, TlsPlane::kEpoch, TlsPlane::token_of(0)).error_code() ==
        StatusCode::UNAVAILABLE);
  CHECK(plane.coordinator().take_events().empty());
  Bootstrap clear = plane.bootstrap(0);
  clear.ca_certificate.clear();
  CHECK_THROWS_WITH(connect_control(clear), Catch::Contains("no certificates"));
  Bootstrap nameless = plane.bootstrap(0);
  nameless.coordinator_name.clear();
  CHECK_THROWS_WITH(connect_control(nameless), Catch::Contains("no name"));
  Bootstrap named = plane.bootstrap(0);
  named.coordinator_address = "localhost:1";
  CHECK_THROWS_AS(connect_control(named), UsageError);
  plane.check_open(0);
}

TEST_CASE("each rank joins as itself alone, in its epoch alone", "[launcher][security]") {
  for (const int certified : {0, 1}) {
    for (const int64_t certified_epoch : {kOldEpoch, TlsPlane::kEpoch}) {
      TlsPlane plane;
      LooseRank rank(plane, plane.authority().certify_rank(certified_epoch, certified));
      for (const int claimed : {0, 1}) {
        for (const int64_t epoch : {kOldEpoch, TlsPlane::kEpoch}) {
          const bool right =
              claimed == certified && epoch == certified_epoch && epoch == TlsPlane::kEpoch;
          if (!right) {
            CHECK(is_refusal(rank.join(claimed, epoch, TlsPlane::token_of(claimed))));
            CHECK(is_refusal(rank.attend(claimed, epoch, TlsPlane::token_of(claimed))));
          }
        }
      }
      CHECK(plane.coordinator().take_events().empty());
      plane.check_open(0);
      plane.check_open(1);
    }
  }
}

TEST_CASE("a token admits its rank once", "[launcher][security]") {
  TlsPlane plane;
  LooseRank rank(plane, plane.authority().certify_rank(TlsPlane::kEpoch, 0));
  CHECK(rank.join(0, TlsPlane::kEpoch, "guess").error_code() == StatusCode::PERMISSION_DENIED);
  CHECK(is_refusal(rank.join(0, TlsPlane::kEpoch, "")));
  CHECK(is_refusal(rank.join(0, TlsPlane::kEpoch, TlsPlane::token_of(1))));
  plane.check_open(0);
  LooseRank replay(plane, plane.authority().certify_rank(TlsPlane::kEpoch, 0));
  CHECK(is_refusal(replay.join(0, TlsPlane::kEpoch, TlsPlane::token_of(0))));
  plane.check_open(1);
}

TEST_CASE("a rank attends once, as itself, after it has joined", "[launcher][security]") {
  TlsPlane plane;
  LooseRank rank(plane, plane.authority().certify_rank(TlsPlane::kEpoch, 0));
  CHECK(is_refusal(rank.attend(0, TlsPlane::kEpoch, "")));
  LooseRank honest(plane, plane.authority().certify_rank(TlsPlane::kEpoch, 0));
  grpc::Status status;
  std::thread joining([&] {
    do {  // the first failure above may cost this host a second
      status = honest.join(0, TlsPlane::kEpoch, TlsPlane::token_of(0));
    } while (status.error_code() == StatusCode::UNAVAILABLE);
  });
  plane.coordinator().admit(plane.expect<JoinEvent>().second.ticket, {});
  joining.join();
  CHECK(status.ok());
  LooseRank thief(plane, plane.authority().certify_rank(TlsPlane::kEpoch, 1));
  CHECK(is_refusal(thief.attend(0, TlsPlane::kEpoch, honest.session())));
  CHECK(is_refusal(thief.attend(1, TlsPlane::kEpoch, honest.session())));
  control::RankMessage no_hello;
  no_hello.mutable_commit()->set_tag("global_step1");
  CHECK(is_refusal(honest.attend(no_hello)));
  CHECK(is_refusal(honest.attend(0, kOldEpoch, honest.session())));
  CHECK(plane.coordinator().take_events().empty());
  plane.check_open(1);
}

TEST_CASE("ranks that cannot be are refused even with a certificate", "[launcher][security]") {
  TlsPlane plane;
  for (const int rank : {-1, 2, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    LooseRank odd(plane, plane.authority().certify_rank(TlsPlane::kEpoch, rank));
    CHECK(is_refusal(odd.join(rank, TlsPlane::kEpoch, TlsPlane::token_of(0))));
    CHECK(is_refusal(odd.attend(rank, TlsPlane::kEpoch, TlsPlane::token_of(0))));
  }
  CHECK(plane.coordinator().take_events().empty());
  plane.check_open(0);
}

TEST_CASE("a rank that talks nonsense is heard and does no harm", "[launcher][rankd][security]") {
  TlsPlane plane;
  const std::unique_ptr<ControlClient> client = connect_control(plane.bootstrap(0));
  plane.join(*client);
  plane.coordinator().send_to_all(static_cast<control::CommandMessage::Kind>(77));
  plane.coordinator().send_to_all(control::CommandMessage::SAVE_NOW);
  std::optional<Command> command;
  while (!(command = client->poll())) {
    std::this_thread::yield();
  }
  CHECK(*command == Command::kSaveNow);  // the unknown one before it was passed over
  CHECK(finish_while([&] { plane.pump(); }, *client, static_cast<ExitCode>(-5),
                     static_cast<ErrorOrigin>(99), "odd"));
  while (plane.expect<control::RankMessage>().second.final().error() != "odd") {
  }
  plane.check_open(1);
}

}  // namespace ds
