// Saving and loading through the public interface: any layout to any layout, tags, corruption, full
// disks.
#include <stdlib.h>

#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using namespace ds::testing;

TEST_CASE("what n ranks saved m ranks load, each reading its own range", "[checkpoint]") {
  for (int writers = 1; writers <= 4; ++writers) {
    MemoryFileSystem fs;
    save_and_commit(fs, "/c", writers, {"t", 1, 5, 100});
    CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
    CHECK(reader.manifest().step == 5);
    CHECK(reader.names() == std::vector<std::string>{"w/weight"});
    CHECK(reader.info("w/weight").shape == kShape);
    CHECK(reader.state("train") == R"({"value":100})");
    CHECK_FALSE(reader.has_state("other"));
    for (int readers = 1; readers <= 5; ++readers) {
      for (int rank = 0; rank < readers; ++rank) {
        const int64_t begin = 77 * rank / readers;
        const int64_t end = 77 * (rank + 1) / readers;
        Tensor into = zeros(end - begin);
        reader.get("w/weight", Region::flat(begin, end), into);
        const auto expected = counting(end - begin, static_cast<float>(100 + begin));
        CHECK(values_of(into) == values_of(expected));
      }
    }
  }
}

TEST_CASE("boxes are cut from flat pieces and flat ranges from boxes", "[checkpoint]") {
  MemoryFileSystem fs;
  CommitRequest request{"/c", "t", 1, 1, {}};
  for (int rank = 0; rank < 2; ++rank) {  // split by columns: [0, 4) and [4, 11)
    const Range columns = rank == 0 ? Range{0, 4} : Range{4, 11};
    const Region box = Region::all_of({{{{0, 7}}, {columns}}}, kShape);
    Tensor data = zeros(box.numel());
    for (const Run& run : runs_of(box, kShape)) {
      for (int64_t i = 0; i < run.numel; ++i) {
        data.data<float>()[run.inside + i] = static_cast<float>(run.first + i);
      }
    }
    CheckpointWriter writer(fs, {"/c", "t", 1, rank}, 0);
    writer.put({"w/weight", kShape, box, data});
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
  CHECK(load(fs, "/c", "t") == values_of(counting(77, 0)));
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
  Tensor into = zeros(2 * 3);
  reader.get("w/weight", Region::all_of({{{{2, 4}}, {{3, 6}}}}, kShape), into);
  CHECK(values_of(into) == std::vector<float>{25, 26, 27, 36, 37, 38});
}

TEST_CASE("pieces larger than a block and a chunk arrive whole, in part and replicated",
          "[checkpoint]") {
  MemoryFileSystem fs;
  const int64_t numel = 11 * (kBlockBytes / 4) + 1237;
  const Shape shape{numel};
  CommitRequest request{"/c", "t", 1, 1, {}};
  for (int rank = 0; rank < 2; ++rank) {
    CheckpointWriter writer(fs, {"/c", "t", 1, rank}, numel * 4);
    writer.put({"odd/weight", Shape{3}, Region::whole(Shape{3}), counting(3, 7)});
    writer.put({"big/weight", shape, Region::whole(shape), counting(numel, 0)});
    writer.put({"empty/weight", Shape{0}, Region::flat(0, 0), zeros(0)});
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
  const int64_t block = kBlockBytes / 4;
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, numel},
                                                {5, 6},
                                                {block - 20, block + 20},
                                                {2 * block + 3, 9 * block},
                                                {numel - 1, numel}}) {
    Tensor into = zeros(end - begin);
    reader.get("big/weight", Region::flat(begin, end), into);
    CHECK(into.data<float>()[0] == static_cast<float>(begin));
    CHECK(into.data<float>()[end - begin - 1] == static_cast<float>(end - 1));
    CHECK(values_of(into) == values_of(counting(end - begin, static_cast<float>(begin))));
  }
  Tensor none = zeros(0);
  reader.get("empty/weight", Region::flat(0, 0), none);
  reader.verify();
}

TEST_CASE("asking for what is not there, or as another type, is refused", "[checkpoint]") {
  MemoryFileSystem fs;
  CHECK_THROWS_AS(CheckpointReader::open(fs, "/c", "t"), InputMissing);
  CommitRequest request{"/c", "t", 1, 1, {}};
  CheckpointWriter writer(fs, {"/c", "t", 1, 0}, 0);
  writer.put({"w/weight", kShape, Region::flat(10, 20), zeros(10)});
  CHECK_THROWS_AS(writer.put({"w/x", kShape, Region::flat(10, 20), zeros(9)}), InternalError);
  CHECK_THROWS_AS(writer.put({"w/x", kShape, Region::flat(70, 80), zeros(10)}), InternalError);
  writer.put_state("s", "{}");
  CHECK_THROWS_AS(writer.put_state("s", "{}"), InternalError);
  request.votes.push_back(writer.finish());
  CHECK_THROWS_AS(writer.finish(), InternalError);
  commit_tag(fs, request);
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
  Tensor into = zeros(10);
  CHECK_THROWS_WITH(reader.get("w/weight", Region::flat(15, 25), into),
                    Catch::Contains("no piece covers element 20 of 'w/weight'"));
  CHECK_THROWS_WITH(reader.get("w/weight", Region::flat(5, 15), into),
                    Catch::Contains("no piece covers element 5"));
  CHECK_THROWS_WITH(reader.get("w/other", Region::flat(5, 15), into), Catch::Contains("no tensor"));
  CHECK_THROWS_WITH(reader.state("other"), Catch::Contains("no state 'other'"));
  std::vector<BF16> narrow(10);
  Tensor other = Tensor::borrow(narrow.data(), Shape{10}, DType::kBF16);
  CHECK_THROWS_WITH(reader.get("w/weight", Region::flat(10, 20), other), Catch::Contains("bf16"));
}

TEST_CASE("tags are plain names", "[checkpoint]") {
  for (const char* good : {"global_step12", "a", "0", "best-model.v2"})
    CHECK_NOTHROW(check_tag(good));
  for (const std::string& bad :
       {std::string("../x"), std::string("/x"), std::string("a/b"), std::string("."),
        std::string(".."), std::string(), std::string("-rf"), std::string(300, 'a'),
        std::string("a\0b", 3), std::string("a\n"), std::string("a "), std::string("x.tmp.3"),
        std::string("x.old.0"), std::string("latest"), std::string("epoch")}) {
    CHECK_THROWS_AS(check_tag(bad), UsageError);
  }
  MemoryFileSystem fs;
  CHECK_THROWS_AS(CheckpointWriter(fs, {"/c", "../x", 1, 0}, 0), UsageError);
  CHECK_THROWS_AS(CheckpointReader::open(fs, "/c", "../x"), UsageError);
}

TEST_CASE("a commit needs one good vote of every rank", "[checkpoint]") {
  MemoryFileSystem fs;
  const CommitRequest good = save_parts(fs, "/c", 2, {"t", 1, 1, 0});
  const auto refused = [&](auto change, const std::string& reason) {
    CommitRequest request = good;
    change(request);
    CHECK_THROWS_WITH(commit_tag(fs, request), Catch::Contains(reason));
    CHECK(list_tags(fs, "/c").tags.empty());
  };
  refused([](auto& r) { r.votes.clear(); }, "no votes");
  refused([](auto& r) { r.votes[1] = r.votes[0]; }, "expected one vote of each of 2 ranks");
  refused([](auto& r) { r.votes[1].epoch = 2; }, "in generation 2");
  refused([](auto& r) { r.votes.erase(r.votes.begin()); }, "expected one vote of each of 1 ranks");
  refused([](auto& r) { r.votes[1].bytes += 1; }, "expected 4097");
  refused([](auto& r) { r.votes[1].digest[0] ^= 1; }, "the manifest says");
  refused([](auto& r) { r.votes[1].name = "other"; }, "vote of rank 1 for 'other'");
  commit_tag(fs, good);
  CHECK(list_tags(fs, "/c").tags.size() == 1);
}

TEST_CASE("a writer of an older epoch cannot commit", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  const CommitRequest late = save_parts(fs, "/c", 2, {"t", 1, 1, 0});
  const auto removed = open_epoch(fs, "/c", 2);
  CHECK(removed == std::vector<std::string>{"removed t.tmp.1"});
  CHECK_THROWS_WITH(commit_tag(fs, late), Catch::Contains("generation 1 is over, generation 2"));
  CHECK_THROWS_AS(open_epoch(fs, "/c", 1), ValidationError);
  save_and_commit(fs, "/c", 2, {"t", 2, 1, 50});
  CHECK(load(fs, "/c", "t")[0] == 50);
  fs.write_text_atomically("/c/epoch", "junk");
  CHECK_THROWS_WITH(open_epoch(fs, "/c", 3), Catch::Contains("no number of a generation"));
}

TEST_CASE(
    "an epoch that records itself between the two halves of a commit shuts the second one out",
    "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 2, {"t", 1, 1, 10});
  prepare_tag(fs, save_parts(fs, "/c", 2, {"t", 1, 2, 20}));
  fs.write_text_atomically(
      "/c/epoch", "2 another\n");  // what open_epoch does first: nothing is cleared away yet
  CHECK_THROWS_WITH(publish_tag(fs, "/c", "t", 1),
                    Catch::Contains("generation 1 is over, generation 2"));
  CHECK(load(fs, "/c", "t")[0] == 10);
  CHECK(list_tags(fs, "/c").tags.at(0).step == 1);
  CHECK(fs.list("/c").size() ==
        3);  // the tag, the epoch, and what was prepared: nothing went aside
}

TEST_CASE("a replacement whose own directory is gone leaves the tag in its place", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 2, {"t", 1, 1, 10});
  CHECK_THROWS_AS(publish_tag(fs, "/c", "t", 1), Error);
  CHECK(load(fs, "/c", "t")[0] == 10);
  CHECK(fs.list("/c").size() == 2);  // the tag and the epoch
}

TEST_CASE("what an epoch left is taken from its writer whole", "[checkpoint]") {
  MemoryFileSystem before;
  open_epoch(before, "/c", 1);
  prepare_tag(before, save_parts(before, "/c", 2, {"t", 1, 1, 0}));
  const size_t files = before.list("/c/t.tmp.1").size();
  REQUIRE(files == 3);
  bool was_gone = false;
  for (int64_t call = 0;; ++call) {
    const auto fs = before.after_crash(CrashModel::kKeepAll, 0);
    FaultFileSystem faults(*fs);
    faults.fail_call(call, Fault::kCrash);
    bool crashed = false;
    try {
      open_epoch(faults, "/c", 2);
    } catch (const SimulatedCrash&) {
      crashed = true;
    }
    const bool gone = !fs->exists("/c/t.tmp.1");
    INFO("stopped in call " << call);
    CHECK((gone || fs->list("/c/t.tmp.1").size() ==
                       files));  // its writer could still name it: never a part
    was_gone = was_gone || (gone && crashed);
    if (!crashed) break;
  }
  CHECK(was_gone);
}

TEST_CASE(
    "a tag whose files are not all there, or not as long as they were, is named with the reason",
    "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  for (int64_t step = 1; step <= 3; ++step)
    save_and_commit(fs, "/c", 2, {fmt::format("global_step{}", step), 1, step, 0});
  fs.remove("/c/global_step3/rank-00001.pieces");
  fs.truncate("/c/global_step2/rank-00000.pieces", 100);
  const TagList list = list_tags(fs, "/c");
  REQUIRE(list.tags.size() == 1);
  CHECK(list.tags[0].step == 1);
  REQUIRE(list.rejected.size() == 2);
  CHECK_THAT(list.rejected[0].why, Catch::Contains("rank-00000.pieces: truncated or replaced"));
  CHECK_THAT(list.rejected[1].why, Catch::Contains("rank-00001.pieces: is missing"));
}

TEST_CASE("a root that could not be made durable at first is made so by the next epoch",
          "[checkpoint]") {
  for (int64_t call = 0;; ++call) {
    MemoryFileSystem memory;
    FaultFileSystem faults(memory);
    faults.fail_call(call, Fault::kIoError);
    bool failed = false;
    try {
      open_epoch(faults, "/run/c", 1);
    } catch (const IoError&) {
      failed = true;
    }
    open_epoch(memory, "/run/c", 2);
    save_and_commit(memory, "/run/c", 2, {"t", 2, 1, 10});
    const auto after = memory.after_crash(CrashModel::kKeepNone, 0);
    INFO("failed in call " << call);
    REQUIRE(list_tags(*after, "/run/c").tags.size() == 1);
    if (!failed) break;
  }
}

TEST_CASE("a tag under another name than its own is none", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 2, {"global_step1", 1, 1, 10});
  fs.rename("/c/global_step1", "/c/global_step9");
  CHECK(list_tags(fs, "/c").tags.empty());
  const FoundTag found = find_newest_valid(fs, "/c", Depth::kIndexes);
  CHECK_FALSE(found.tag);
  REQUIRE(found.rejected.size() == 1);
  CHECK_THAT(found.rejected[0].why,
             Catch::Contains("of tag global_step1; the directory was renamed"));
}

TEST_CASE("of two launchers that number an epoch alike only the first may write", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", {4, "first"});
  CHECK(fs.read_text("/c/epoch", 100) == "4 first\n");
  open_epoch(fs, "/c", {4, "first"});  // a second of its ranks
  CHECK_THROWS_WITH(open_epoch(fs, "/c", {4, "second"}), Catch::Contains("another dslaunch"));
  CommitRequest late = save_parts(fs, "/c", 2, {"t", 4, 1, 0});
  late.epoch = {4, "second"};
  CHECK_THROWS_WITH(commit_tag(fs, late), Catch::Contains("another dslaunch"));
  CHECK_THROWS_AS(retain_tags(fs, "/c", 1, {4, "second"}, 1), ValidationError);
  CHECK(list_tags(fs, "/c").tags.empty());
  late.epoch = {4, "first"};
  commit_tag(fs, late);
  open_epoch(fs, "/c", {5, "second"});
  CHECK_THROWS_WITH(open_epoch(fs, "/c", {4, "first"}),
                    Catch::Contains("generation 4 is over, generation 5"));
  fs.write_text_atomically("/c/epoch", "6\n");  // as earlier versions wrote it
  open_epoch(fs, "/c", {6, "first"});
}

TEST_CASE("a tag can be replaced, and older tags are retired only behind a good one",
          "[checkpoint]") {
  MemoryFileSystem fs;
  for (int64_t step = 1; step <= 4; ++step) {
    const float value = static_cast<float>(step);
    save_and_commit(fs, "/c", 2, {fmt::format("global_step{}", step), 1, step, value});
  }
  save_and_commit(fs, "/c", 3, {"global_step3", 1, 3, 33});
  CHECK(load(fs, "/c", "global_step3")[0] == 33);
  CHECK(retain_tags(fs, "/c", 2, 1, 4) == std::vector<std::string>{"global_step2", "global_step1"});
  CHECK(retain_tags(fs, "/c", 2, 1, 4).empty());
  CHECK(fs.list("/c").size() == 2);
  fs.flip_bit("/c/global_step4/rank-00001.pieces", 5);
  CHECK_THROWS_AS(retain_tags(fs, "/c", 1, 1, 4), ValidationError);
  CHECK(list_tags(fs, "/c").tags.size() == 2);
  CHECK_THROWS_AS(retain_tags(fs, "/c", 0, 1, 4), InternalError);
}

TEST_CASE("tags of a run that was left behind crowd out none of the one that goes on",
          "[checkpoint]") {
  MemoryFileSystem fs;
  save_and_commit(fs, "/c", 2, {"global_step100", 1, 100, 100});
  for (int64_t step = 1; step <= 3; ++step) {
    save_and_commit(fs, "/c", 2,
                    {fmt::format("global_step{}", step), 2, step, static_cast<float>(step)});
    retain_tags(fs, "/c", 1, 2, step);
    CHECK(load(fs, "/c", fmt::format("global_step{}", step))[0] == static_cast<float>(step));
    CHECK(list_tags(fs, "/c").tags.size() == 2);
  }
}

TEST_CASE("a training begun anew is gone on with, however far the one before it came",
          "[checkpoint]") {
  MemoryFileSystem fs;
  const auto save = [&](int64_t step, int64_t epoch, int64_t begun_in) {
    CommitRequest request = save_parts(
        fs, "/c", 2, {fmt::format("global_step{}", step), epoch, step, static_cast<float>(step)});
    request.begun_in = begun_in;
    commit_tag(fs, request);
  };
  const auto steps = [](const auto& list) {
    std::vector<int64_t> out;
    for (const CommittedTag& tag : list.tags) out.push_back(tag.step);
    return out;
  };
  save(100, 1, 1);
  save(120, 2, 1);
  save(50, 3, 3);
  save(60, 4, 3);
  CHECK(steps(list_tags(fs, "/c")) == std::vector<int64_t>{60, 50, 120, 100});
  CHECK(steps(resumable_tags(fs, "/c")) == std::vector<int64_t>{60, 50});
  CHECK(steps(resumable_tags(fs, "/c", {.oldest_epoch = 4})) == std::vector<int64_t>{60});
  CHECK(resumable_tags(fs, "/c", {.oldest_epoch = 5}).tags.empty());
  CHECK(find_newest_valid(fs, "/c", Depth::kAllBytes).tag->step == 60);
  CHECK(retain_tags(fs, "/c", 1, 4, 60) == std::vector<std::string>{"global_step50"});
  // Not even where nothing else is left does the other training come back unasked.
  fs.truncate("/c/global_step60/rank-00000.pieces", 100);
  const FoundTag found = find_newest_valid(fs, "/c", Depth::kIndexes);
  CHECK_FALSE(found.tag.has_value());
  CHECK(found.rejected.size() == 1);
}

TEST_CASE("latest is only a hint, unless somebody has set it to an earlier tag", "[checkpoint]") {
  MemoryFileSystem fs;
  CHECK_FALSE(find_newest_valid(fs, "/c", Depth::kAllBytes).tag.has_value());
  const auto taken = [&] {
    const FoundTag out = find_newest_valid(fs, "/c", Depth::kAllBytes);
    return out.tag->tag + (out.newer.empty() ? "" : ", newer " + out.newer);
  };
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 1, {"a", 1, 1, 1});
  write_latest(fs, "/c", "a", 1);
  save_and_commit(fs, "/c", 1, {"b", 1, 2, 2});
  CHECK(taken() == "b");  // it is late
  write_latest(fs, "/c", "b", 1);
  CHECK(fs.read_text("/c/latest", 100) == "b\n");
  for (const std::string& text :
       {std::string(), std::string("b"), std::string("gone\n"), std::string(1 << 20, 'x')}) {
    fs.write_text_atomically("/c/latest", text);
    CHECK(taken() == "b");
  }
  fs.write_text_atomically("/c/latest", " a \n");
  CHECK(taken() == "a, newer b");
  fs.remove("/c/latest");
  fs.make_directory("/c/global_step9");  // perhaps of another program: not ours to delete
  open_epoch(fs, "/c", 2);
  CHECK(fs.exists("/c/global_step9"));
  fs.truncate("/c/b/rank-00000.pieces", 100);
  const FoundTag found = find_newest_valid(fs, "/c", Depth::kIndexes);
  CHECK(found.tag->tag == "a");
  REQUIRE(found.rejected.size() == 2);
  CHECK_THAT(found.rejected[0].why, Catch::Contains("/c/b/rank-00000.pieces: truncated"));
  CHECK_THAT(found.rejected[1].why, Catch::Contains("/c/global_step9: has no manifest.json"));
}

TEST_CASE("corrupt data is refused with file, block and offset, and never used", "[checkpoint]") {
  MemoryFileSystem fs;
  const int64_t numel = kBlockBytes;  // four blocks
  CheckpointWriter writer(fs, {"/c", "t", 1, 0}, 0);
  writer.put({"w/weight", Shape{numel}, Region::flat(0, numel), counting(numel, 0)});
  commit_tag(fs, {"/c", "t", 1, 1, {writer.finish()}});
  fs.flip_bit("/c/t/rank-00000.pieces", 8 * (2 * kBlockBytes + 77));
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
  Tensor into = zeros(1);
  CHECK_THROWS_WITH(
      reader.get("w/weight", Region::flat(kBlockBytes / 2, kBlockBytes / 2 + 1), into),
      Catch::Contains("/c/t/rank-00000.pieces: corrupt: block 2 (bytes [2097152, 3145728))"));
  CHECK(into.data<float>()[0] == 0);
  CHECK_NOTHROW(reader.get("w/weight", Region::flat(0, 1), into));
  CHECK_THROWS_AS(reader.verify(), ValidationError);
}

TEST_CASE("every single-bit flip of a small checkpoint is detected", "[checkpoint]") {
  MemoryFileSystem fs;
  save_and_commit(fs, "/c", 1, {"t", 1, 1, 1});
  REQUIRE(find_newest_valid(fs, "/c", Depth::kAllBytes).tag.has_value());
  for (const std::string path : {"/c/t/manifest.json", "/c/t/rank-00000.pieces"}) {
    const int64_t bits = 8 * fs.open(path)->size();
    int64_t missed = 0;
    for (int64_t bit = 0; bit < bits; ++bit) {
      fs.flip_bit(path, bit);
      missed += find_newest_valid(fs, "/c", Depth::kAllBytes).tag.has_value() ? 1 : 0;
      fs.flip_bit(path, bit);
    }
    CHECK(missed == 0);
  }
  CHECK(find_newest_valid(fs, "/c", Depth::kAllBytes).tag.has_value());
}

TEST_CASE("truncation at every length and swapped shards are detected", "[checkpoint]") {
  for (const std::string path : {"/c/t/manifest.json", "/c/t/rank-00001.pieces"}) {
    MemoryFileSystem fs;
    save_and_commit(fs, "/c", 2, {"t", 1, 1, 1});
    for (int64_t size = fs.open(path)->size() - 1; size >= 0; --size) {
      fs.truncate(path, size);
      REQUIRE_FALSE(find_newest_valid(fs, "/c", Depth::kIndexes).tag.has_value());
    }
    fs.remove(path);
    CHECK_FALSE(find_newest_valid(fs, "/c", Depth::kIndexes).tag.has_value());
  }
  MemoryFileSystem fs;
  save_and_commit(fs, "/c", 2, {"t", 1, 1, 1});
  fs.rename("/c/t/rank-00000.pieces", "/c/t/x");
  fs.rename("/c/t/rank-00001.pieces", "/c/t/rank-00000.pieces");
  fs.rename("/c/t/x", "/c/t/rank-00001.pieces");
  CHECK_FALSE(find_newest_valid(fs, "/c", Depth::kIndexes).tag.has_value());
}

TEST_CASE("too little free space is refused before anything is written", "[checkpoint]") {
  MemoryFileSystem fs(100'000);
  CHECK_THROWS_WITH(CheckpointWriter(fs, {"/c", "t", 1, 0}, 1 << 20),
                    Catch::Contains("need=2097152 free=100000"));
  CHECK(fs.used_bytes() == 0);
}

TEST_CASE("a disk that fills up during a save keeps the previous tag and loses no space",
          "[checkpoint]") {
  for (int64_t spare = 0; spare < 14'000; spare += 512) {
    MemoryFileSystem fs;
    save_and_commit(fs, "/c", 2, {"a", 1, 1, 1});
    const int64_t used = fs.used_bytes();
    // Free space is checked with the capacity as it is now; then it shrinks under the writer.
    try {
      std::vector<FileVote> votes;
      for (int rank = 0; rank < 2; ++rank) {
        CheckpointWriter writer(fs, {"/c", "b", 1, rank}, 0);
        fs.set_capacity(used + spare);
        writer.put({"w/weight", kShape, Region::whole(kShape), counting(77, 2)});
        votes.push_back(writer.finish());
        fs.set_capacity(int64_t{1} << 40);
      }
      fs.set_capacity(used + spare);
      commit_tag(fs, {"/c", "b", 1, 2, votes});
      CHECK(find_newest_valid(fs, "/c", Depth::kAllBytes).tag->tag == "b");
    } catch (const DiskFull&) {
      discard_tag(fs, "/c", "b", 1);
      CHECK(find_newest_valid(fs, "/c", Depth::kAllBytes).tag->tag == "a");
      CHECK(fs.used_bytes() == used);
    }
  }
}

TEST_CASE("a checkpoint on a real disk loads", "[checkpoint]") {
  std::string root = "/tmp/ds_checkpoint_test.XXXXXX";
  REQUIRE(::mkdtemp(root.data()) != nullptr);
  RealFileSystem fs;
  save_and_commit(fs, root, 2, {"t", 1, 1, 3});
  open_epoch(fs, root, 1);
  write_latest(fs, root, "t", 1);
  CHECK(load(fs, root, "t") == values_of(counting(77, 3)));
  CHECK(find_newest_valid(fs, root, Depth::kAllBytes).tag->tag == "t");
  fs.remove_tree(root);
}
