// The parts of a commit one by one, in every order that a failure elsewhere can bring about: what
// was there before comes back, nothing of another epoch is touched, and doing it again harms
// nothing.
#include "checkpoint/commit.h"
#include "core/status/error.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using namespace ds::testing;

namespace {

// The entries of the root, with blanks between them.
std::string entries_of(const MemoryFileSystem& fs, const std::string& root = "/c") {
  std::string out;
  for (const DirectoryEntry& entry : fs.list(root)) {
    if (!out.empty()) out += ' ';
    out += entry.name;
  }
  return out;
}

float value_of(MemoryFileSystem& fs, const std::string& tag) { return load(fs, "/c", tag)[0]; }

// A root where tag "t" holds 10, and a replacement of it with 20 is prepared.
void prepare_replacement(MemoryFileSystem& fs) {
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 2, {"t", 1, 1, 10});
  prepare_tag(fs, save_parts(fs, "/c", 2, {"t", 1, 2, 20}));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is prepared is not loadable, and what was there stays so", "[checkpoint]") {
  MemoryFileSystem fs;
  prepare_replacement(fs);
  CHECK(entries_of(fs) == "epoch t t.tmp.1");
  CHECK(value_of(fs, "t") == 10);
  CHECK(list_tags(fs, "/c").tags.size() == 1);
}

TEST_CASE("publishing names what was prepared and keeps what it replaced until it is dropped",
          "[checkpoint]") {
  MemoryFileSystem fs;
  prepare_replacement(fs);
  publish_tag(fs, "/c", "t", 1);
  CHECK(entries_of(fs) == "epoch t t.old.1");
  CHECK(value_of(fs, "t") == 20);
  drop_replaced(fs, "/c", "t", 1);
  CHECK(entries_of(fs) == "epoch t");
  drop_replaced(fs, "/c", "t", 1);
  CHECK(value_of(fs, "t") == 20);
}

TEST_CASE("a publication is taken back whole, as often as one likes", "[checkpoint]") {
  MemoryFileSystem fs;
  prepare_replacement(fs);
  publish_tag(fs, "/c", "t", 1);
  for (int again = 0; again < 3; ++again) {
    unpublish_tag(fs, "/c", "t", 1);
    CHECK(entries_of(fs) == "epoch t t.tmp.1");
    CHECK(value_of(fs, "t") == 10);
  }
  publish_tag(fs, "/c", "t", 1);
  CHECK(value_of(fs, "t") == 20);
}

TEST_CASE("taking back a first publication leaves no tag", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  prepare_tag(fs, save_parts(fs, "/c", 2, {"t", 1, 2, 20}));
  publish_tag(fs, "/c", "t", 1);
  unpublish_tag(fs, "/c", "t", 1);
  CHECK(entries_of(fs) == "epoch t.tmp.1");
  discard_prepared(fs, "/c", "t", 1);
  CHECK(entries_of(fs) == "epoch");
  discard_prepared(fs, "/c", "t", 1);
  unpublish_tag(fs, "/c", "t", 1);
  CHECK(entries_of(fs) == "epoch");
}

TEST_CASE("what another epoch published is not taken back", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 2, {"t", 1, 1, 10});
  open_epoch(fs, "/c", 2);
  unpublish_tag(fs, "/c", "t", 2);
  CHECK(entries_of(fs) == "epoch t");
  CHECK(value_of(fs, "t") == 10);
  CHECK_THAT(error_of([&] { unpublish_tag(fs, "/c", "t", 1); }),
             Catch::Contains("generation 1 is over, generation 2 has taken its place"));
}

TEST_CASE("discarding a tag puts back what it was about to replace", "[checkpoint]") {
  MemoryFileSystem fs;
  prepare_replacement(fs);
  fs.rename("/c/t", "/c/t.old.1");  // between the two renames of a publication
  discard_tag(fs, "/c", "t", 1);
  CHECK(entries_of(fs) == "epoch t");
  CHECK(value_of(fs, "t") == 10);
  discard_tag(fs, "/c", "t", 1);
  CHECK(value_of(fs, "t") == 10);
}

TEST_CASE("discarding never touches what another epoch prepared or put aside", "[checkpoint]") {
  MemoryFileSystem fs;
  prepare_replacement(fs);
  fs.make_directory("/c/t.old.7");
  discard_tag(fs, "/c", "t", 2);
  drop_replaced(fs, "/c", "t", 2);
  CHECK(entries_of(fs) == "epoch t t.old.7 t.tmp.1");
}

TEST_CASE("the next epoch finishes what stood between two renames", "[checkpoint]") {
  for (const bool renamed : {false, true}) {
    MemoryFileSystem fs;
    prepare_replacement(fs);
    fs.rename("/c/t", "/c/t.old.1");
    if (renamed) fs.rename("/c/t.tmp.1", "/c/t");
    const std::vector<std::string> done = open_epoch(fs, "/c", 2);
    CAPTURE(renamed, done);
    CHECK(entries_of(fs) == "epoch t");
    CHECK(value_of(fs, "t") == (renamed ? 20 : 10));
    CHECK(done == (renamed ? std::vector<std::string>{"removed t.old.1"}
                           : std::vector<std::string>{"put back t", "removed t.tmp.1"}));
  }
}

TEST_CASE("a damaged tag that was put aside does not come back", "[checkpoint]") {
  MemoryFileSystem fs;
  prepare_replacement(fs);
  fs.rename("/c/t", "/c/t.old.1");
  fs.truncate("/c/t.old.1/manifest.json", 20);
  open_epoch(fs, "/c", 2);
  CHECK(entries_of(fs) == "epoch");
}

TEST_CASE("an epoch leaves alone what newer ones and other programs have in the root",
          "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  for (const char* name : {"t.tmp.9", "t.old.9", "t.tmp.x", ".tmp.1", "notes"}) {
    fs.make_directory(fmt::format("/c/{}", name));
  }
  fs.write_text_atomically("/c/x.tmp.1", "a file, not a directory");
  CHECK(open_epoch(fs, "/c", 2).empty());
  CHECK(entries_of(fs) == ".tmp.1 epoch notes t.old.9 t.tmp.9 t.tmp.x x.tmp.1");
}

TEST_CASE("the record of epochs is read whatever launcher wrote it, and junk is refused",
          "[checkpoint]") {
  const auto opened = [](const std::string& record, const EpochClaim& claim) {
    MemoryFileSystem fs;
    fs.make_directory("/c");
    fs.write_text_atomically("/c/epoch", record);
    return error_of([&] { open_epoch(fs, "/c", claim); });
  };
  CHECK(opened("3\n", {3, "me"}).empty());
  CHECK(opened("3 me\n", {3, "me"}).empty());
  CHECK(opened("3 me", {4, "you"}).empty());
  CHECK(opened("3 me\n", 3).empty());  // nobody gave a word for it
  CHECK_THAT(opened("3 me\n", {3, "you"}),
             Catch::Contains("another dslaunch has started a generation 3"));
  CHECK_THAT(opened("3 me\n", {2, "me"}), Catch::Contains("generation 2 is over, generation 3"));
  for (const char* junk : {"", "x\n", "-1\n", "3x\n", "99999999999999999999\n", " 3\n"}) {
    CAPTURE(junk);
    CHECK_THAT(opened(junk, 4), Catch::StartsWith("/c/epoch: '") &&
                                    Catch::Contains("is no number of a generation; delete"));
  }
}

TEST_CASE("the epoch is recorded with its holder, so that only a newer one comes after",
          "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", {4, "launcher-a"});
  CHECK(fs.read_text("/c/epoch", 100) == "4 launcher-a\n");
  open_epoch(fs, "/c", 5);
  CHECK(fs.read_text("/c/epoch", 100) == "5\n");
  CHECK_THROWS_AS(open_epoch(fs, "/c", 4), ValidationError);
  CHECK(fs.read_text("/c/epoch", 100) == "5\n");
}

TEST_CASE("tags are removed only by the epoch that holds the root", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 1, {"a", 1, 1, 10});
  save_and_commit(fs, "/c", 1, {"b", 1, 2, 20});
  open_epoch(fs, "/c", 2);
  const std::vector<std::string> both = {"a", "b"};
  CHECK_THROWS_AS(remove_tags(fs, "/c", both, 1), ValidationError);
  CHECK(list_tags(fs, "/c").tags.size() == 2);
  remove_tags(fs, "/c", std::span(both).first(1), 2);
  CHECK(entries_of(fs) == "b epoch");
  CHECK_THROWS_AS(remove_tags(fs, "/c", std::span(both).first(1), 2), Error);
}

TEST_CASE("what has no mark is not removed as if it had one", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 1, {"a", 1, 1, 10});
  CHECK_THROWS_AS(remove_marked(fs, "/c", "a"), InternalError);
  CHECK_THROWS_AS(remove_marked(fs, "/c", "a.gone.1"), InternalError);
  CHECK(value_of(fs, "a") == 10);
  for (const char* name : {"a.tmp.1", "a.old.1", "a.ready.1"}) {
    fs.make_directories(fmt::format("/c/{}/inside", name));
    remove_marked(fs, "/c", name);
  }
  CHECK(entries_of(fs) == "a epoch");
}

TEST_CASE("the hint of the newest tag takes no name that is none", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  CHECK_THROWS_AS(write_latest(fs, "/c", "../x", 1), UsageError);
  CHECK_THROWS_AS(write_latest(fs, "/c", "", 1), UsageError);
  CHECK_FALSE(fs.exists("/c/latest"));
  save_and_commit(fs, "/c", 1, {"a", 1, 1, 10});
  save_and_commit(fs, "/c", 1, {"b", 1, 2, 20});
  write_latest(fs, "/c", "a", 1);
  write_latest(fs, "/c", "b", 1);
  CHECK(fs.read_text("/c/latest", 100) == "b\n");
}

namespace {

// Another process does something before one of its calls.
class Overtaken final : public FaultFileSystem {
 public:
  Overtaken(FileSystem& inner, int64_t call, std::function<void()> other)
      : FaultFileSystem(inner), left_(call), other_(std::move(other)) {}
  int64_t calls_left() const { return left_; }

  using FaultFileSystem::create;
  using FaultFileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Caching caching) override {
    step();
    return FaultFileSystem::open(path, caching);
  }
  std::unique_ptr<File> create(const std::string& path, Caching caching) override {
    step();
    return FaultFileSystem::create(path, caching);
  }
  void rename(const std::string& from, const std::string& to) override {
    step();
    FaultFileSystem::rename(from, to);
  }
  void sync_directory(const std::string& path) override {
    step();
    FaultFileSystem::sync_directory(path);
  }
  void remove(const std::string& path) override {
    step();
    FaultFileSystem::remove(path);
  }
  bool exists(const std::string& path) const override {
    step();
    return FaultFileSystem::exists(path);
  }

 private:
  void step() const {
    if (left_-- == 0) other_();
  }
  mutable int64_t left_;
  const std::function<void()> other_;
};

}  // namespace

// Else a `latest` that is late would look like one that somebody has set.
TEST_CASE("a writer of an older epoch does not change latest any more", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 1, {"a", 1, 1, 10});
  write_latest(fs, "/c", "a", 1);
  // At each of its calls it is overtaken by an epoch that commits and names another tag.
  for (int64_t call = 0;; ++call) {
    const std::unique_ptr<MemoryFileSystem> disk = fs.after_crash(CrashModel::kKeepAll, 0);
    Overtaken late(*disk, call, [&] {
      open_epoch(*disk, "/c", 2);
      save_and_commit(*disk, "/c", 1, {"b", 2, 2, 20});
      write_latest(*disk, "/c", "b", 2);
    });
    try {
      write_latest(late, "/c", "a", 1);
    } catch (const Error&) {  // it may find out
    }
    if (late.calls_left() >= 0) {
      CHECK(call > 5);
      break;
    }
    CAPTURE(call);
    CHECK(find_newest_valid(*disk, "/c", Depth::kIndexes).tag->tag == "b");
  }
}

TEST_CASE("a latest that is put right is no wish at any moment, whenever the power goes",
          "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 1, {"a", 1, 1, 10});
  write_latest(fs, "/c", "a", 1);
  save_and_commit(fs, "/c", 1, {"b", 1, 2, 20});  // and then the process ended
  for (int64_t call = 0;; ++call) {
    const std::unique_ptr<MemoryFileSystem> disk = fs.after_crash(CrashModel::kKeepAll, 0);
    FaultFileSystem dying(*disk);
    dying.fail_call(call, Fault::kCrash);
    bool done = false;
    try {
      go_back(dying, "/c", "b", "b", 1);
      done = true;
    } catch (const SimulatedCrash&) {
    }
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto after = disk->after_crash(CrashModel::kTorn, seed);
      CAPTURE(call, seed);
      CHECK(find_newest_valid(*after, "/c", Depth::kIndexes).tag->tag == "b");
    }
    if (done) break;
  }
}

TEST_CASE("who goes back is followed by those who come later", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  for (const int64_t step : {3, 6, 9}) {
    save_and_commit(fs, "/c", 1, {fmt::format("global_step{}", step), 1, step, 1});
  }
  const auto newest = [&] { return find_newest_valid(fs, "/c", Depth::kIndexes).tag->tag; };
  CHECK(newest() == "global_step9");
  go_back(fs, "/c", "global_step6", "global_step9", 1);
  CHECK(newest() == "global_step6");
  CommitRequest other = save_parts(fs, "/c", 1, {"global_step8", 1, 8, 8});
  other.begun_in = 1;
  other.after = {{.begun_in = 0, .step = 6}};
  commit_tag(fs, other);
  CHECK(newest() == "global_step8");  // latest does not name it yet
  std::vector<std::string> names;
  for (const CommittedTag& tag : resumable_tags(fs, "/c").tags) names.push_back(tag.tag);
  CHECK(names == std::vector<std::string>{"global_step8", "global_step6", "global_step3"});
  write_latest(fs, "/c", "global_step8", 1);
  CHECK(retain_tags(fs, "/c", 2, 1, 8) == std::vector<std::string>{"global_step3"});
  CHECK(fs.exists("/c/global_step9"));  // training has not passed it
}

TEST_CASE("a hint that was being written when its writer died is cleared away", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  for (const char* const name : {"/c/latest.tmp", "/c/latest.tmp.1"})
    fs.create(name)->write(0, std::as_bytes(std::span("half", 4)));
  open_epoch(fs, "/c", 2);
  CHECK(entries_of(fs) == "epoch");
}

TEST_CASE("a writer that is given up leaves no file, one that tries again replaces its own",
          "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  {
    CheckpointWriter writer(fs, {"/c", "t", 1, 0}, 0);
    writer.put({"w", Shape{4}, Region::flat(0, 4), counting(4, 1)});
  }
  CHECK(fs.list("/c/t.tmp.1").empty());
  CommitRequest request{"/c", "t", 1, 1, {}};
  for (const float value : {1.0F, 2.0F}) {
    CheckpointWriter writer(fs, {"/c", "t", 1, 0}, 0);
    writer.put({"w/weight", kShape, Region::whole(kShape), counting(kShape.numel(), value)});
    request.votes = {writer.finish()};
  }
  commit_tag(fs, request);
  CHECK(value_of(fs, "t") == 2);
}

TEST_CASE("a file of another tag is not committed under this one", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  const CommitRequest other = save_parts(fs, "/c", 1, {"other", 1, 1, 10});
  fs.rename("/c/other.tmp.1", "/c/t.tmp.1");
  CommitRequest request = other;
  request.tag = std::string("t");
  CHECK_THAT(error_of([&] { commit_tag(fs, request); }),
             Catch::Contains("commit t: rank-00000.pieces is of tag other"));
  CHECK(list_tags(fs, "/c").tags.empty());
}
