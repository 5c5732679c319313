#include "checkpoint/hosts/local_tags.h"

#include "checkpoint/file_words.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

// What a host of two ranks out of four does of a commit: its own ranks are `first` and the next.
CommitRequest save_half(FileSystem& disk, const Save& save, int first) {
  MemoryFileSystem elsewhere;
  CommitRequest request{"/c", save.tag, save.epoch, save.step, {}};
  for (int rank = 0; rank < 4; ++rank) {
    const bool here = rank == first || rank == first + 1;
    request.votes.push_back(
        save_part(here ? disk : elsewhere, {"/c", save.tag, save.epoch, rank}, 4, save.value));
  }
  request.hosts = {"one", "one", "two", "two"};
  request.here = {first, first + 1};
  return request;
}

void publish_half(FileSystem& disk, const Save& save, int first) {
  prepare_tag(disk, save_half(disk, save, first));
  publish_tag(disk, "/c", save.tag, save.epoch);
  drop_replaced(disk, "/c", save.tag, save.epoch);
}

Names folders(const FileSystem& disk) {
  Names out;
  for (const DirectoryEntry& entry : disk.list("/c")) {
    if (entry.kind == DirectoryEntry::Kind::kDirectory) out.push_back(entry.name);
  }
  return out;
}

std::vector<WholeSet> whole_over(const LocalTags& a, const LocalTags& b) {
  std::vector<HostFile> kept;
  for (const KeptFile& file : a.files()) kept.push_back({0, file});
  for (const KeptFile& file : b.files()) kept.push_back({1, file});
  return whole_sets(kept);
}

const Save kFirst{"global_step1", 1, 1, 10};
const Save kSecond{"global_step2", 1, 2, 20};

}  // namespace

TEST_CASE("which files, in words", "[checkpoint][local]") {
  Manifest manifest{"global_step1", 1, 1, std::vector<FileVote>(8), {}};
  CHECK(files_in_words(manifest, std::vector{3}) == "the file of rank 3 of 8");
  CHECK(files_in_words(manifest, std::vector{5, 2, 6, 7}) == "the files of ranks 2, 5 to 7 of 8");
  manifest.hosts = {"a", "a", "b", "b", "c", "c", "d", "d"};
  CHECK(files_in_words(manifest, std::vector{2, 5, 6, 7}) ==
        "the files of ranks 2, 5 to 7 of 8 (saved on b, c, d)");
}

TEST_CASE("a manifest says who keeps what, where each host keeps its own", "[checkpoint][local]") {
  MemoryFileSystem disk;
  publish_half(disk, kFirst, 2);
  const std::string text = disk.read_text("/c/global_step1/manifest.json", 10000);
  const Manifest manifest = parse_manifest("m", text);
  CHECK(manifest.hosts == Names{"one", "one", "two", "two"});
  CHECK(to_text(manifest) == text);
  Manifest other = manifest;
  other.hosts.pop_back();
  CHECK_THROWS_AS(to_text(other), InternalError);
  // It is the same on every host.
  MemoryFileSystem other_disk;
  publish_half(other_disk, kFirst, 0);
  CHECK(other_disk.read_text("/c/global_step1/manifest.json", 10000) == text);
}

TEST_CASE("a host lists the files that it has of tags, whatever their folders are called",
          "[checkpoint][local]") {
  MemoryFileSystem disk;
  LocalTags tags(disk, "/c");
  tags.look();
  CHECK(tags.tags().empty());  // not even a root
  publish_half(disk, kFirst, 2);
  disk.rename("/c/global_step1", "/c/global_step1.old.3");
  prepare_tag(disk, save_half(disk, kSecond, 2));
  tags.look();
  CHECK(tags.tags().size() == 1);  // who saves step 2 may still be at it
  open_epoch(disk, "/c", 2, Unfinished::kKeep);
  CHECK(folders(disk) == Names{"global_step1.old.3", "global_step2.ready.1"});
  disk.make_directory("/c/notes");
  disk.make_directory("/c/broken");
  disk.write_text_atomically("/c/broken/manifest.json", "{}");
  tags.look();
  REQUIRE(tags.tags().size() == 2);
  CHECK(tags.tags()[0].stage == LocalTags::Tag::Stage::kPublished);
  CHECK(tags.tags()[1].stage == LocalTags::Tag::Stage::kReady);
  REQUIRE(tags.rejected().size() == 1);
  CHECK_THAT(tags.rejected()[0].why, Catch::Contains("/c/broken/manifest.json"));
  const std::vector<KeptFile> files = tags.files();
  REQUIRE(files.size() == 4);
  CHECK(files[3].rank == 3);
  CHECK(files[3].set.step == 2);
  CHECK(parse_manifest("m", tags.manifest(files[3])).tag == "global_step2");
  CHECK(tags.open(files[3])->size() == files[3].bytes);
  disk.remove("/c/global_step2.ready.1/rank-00003.pieces");
  disk.truncate("/c/global_step2.ready.1/rank-00002.pieces", 64);
  CHECK(tags.files().size() == 2);
  disk.remove_tree("/c/global_step2.ready.1");
  tags.look();
  CHECK_THROWS_AS(tags.manifest(files[3]), ValidationError);
  CHECK_THROWS_AS(tags.open(files[3]), InputMissing);
}

TEST_CASE("what is whole over the hosts gets its name, and leftovers go", "[checkpoint][local]") {
  MemoryFileSystem one, two;
  publish_half(one, kSecond, 0);
  publish_half(two, kSecond, 2);
  const Save again{"global_step2", 2, 2, 30};
  // The next epoch ends after the first host has named it, and the second has not.
  prepare_tag(one, save_half(one, again, 0));
  prepare_tag(two, save_half(two, again, 2));
  publish_tag(one, "/c", again.tag, 2);
  const Save third{"global_step3", 2, 3, 40};  // the first host alone has prepared it
  prepare_tag(one, save_half(one, third, 0));
  LocalTags first(one, "/c"), second(two, "/c");
  for (MemoryFileSystem* disk : {&one, &two}) open_epoch(*disk, "/c", 3, Unfinished::kKeep);
  first.look();
  second.look();
  const std::vector<WholeSet> whole = whole_over(first, second);
  REQUIRE(whole.size() == 2);
  CHECK(whole[0].id.epoch == 2);
  CHECK(whole[1].id.epoch == 1);
  const auto epochs = [&] {
    return std::pair(
        parse_manifest("1", one.read_text("/c/global_step2/manifest.json", 10000)).epoch,
        parse_manifest("2", two.read_text("/c/global_step2/manifest.json", 10000)).epoch);
  };
  SECTION("the newer one, if nothing else is said") {
    for (LocalTags* tags : {&first, &second}) tags->settle(whole, nullptr, 3);
    CHECK(epochs() == std::pair<int64_t, int64_t>(2, 2));
  }
  SECTION("the one that was loaded") {
    for (LocalTags* tags : {&first, &second}) tags->settle(whole, &whole[1], 3);
    CHECK(epochs() == std::pair<int64_t, int64_t>(1, 1));
  }
  for (const MemoryFileSystem* disk : {&one, &two}) CHECK(folders(*disk) == Names{"global_step2"});
  CHECK(whole_over(first, second).size() == 1);
}

TEST_CASE("a commit that is taken back leaves the tag before it", "[checkpoint][local]") {
  MemoryFileSystem disk;
  publish_half(disk, kSecond, 0);
  const std::string before = disk.read_text("/c/global_step2/manifest.json", 10000);
  const Save again{"global_step2", 2, 2, 30};
  open_epoch(disk, "/c", 2, Unfinished::kKeep);
  prepare_tag(disk, save_half(disk, again, 0));
  SECTION("named") { publish_tag(disk, "/c", again.tag, 2); }
  SECTION("prepared") {}
  SECTION("not there at all") { disk.remove_tree("/c/global_step2.tmp.2"); }
  unpublish_tag(disk, "/c", again.tag, 2);
  discard_prepared(disk, "/c", again.tag, 2);
  CHECK(folders(disk) == Names{"global_step2"});
  CHECK(disk.read_text("/c/global_step2/manifest.json", 10000) == before);
  open_epoch(disk, "/c", 3, Unfinished::kKeep);
  CHECK_THROWS_AS(unpublish_tag(disk, "/c", again.tag, 2), ValidationError);
}

TEST_CASE("old tags go by name and step, after the new one was read", "[checkpoint][local]") {
  MemoryFileSystem disk;
  for (int step = 1; step <= 4; ++step) publish_half(disk, {default_tag(step), 1, step, 1.0F}, 2);
  LocalTags tags(disk, "/c");
  tags.verify("global_step3", std::vector{2, 3});
  CHECK_THROWS_AS(tags.verify("global_step9", std::vector{2}), ValidationError);
  CHECK_THROWS_AS(tags.verify("global_step3", std::vector{1}),
                  ValidationError);  // not of this host
  disk.flip_bit("/c/global_step3/rank-00003.pieces", 7);
  tags.verify("global_step3", std::vector{2});
  CHECK_THROWS_AS(tags.verify("global_step3", std::vector{2, 3}), ValidationError);
  tags.remove_others(Names{"global_step3", "global_step2"}, 3, 1);
  CHECK(folders(disk) == Names{"global_step2", "global_step3", "global_step4"});
  open_epoch(disk, "/c", 5, Unfinished::kKeep);
  CHECK_THROWS_AS(tags.remove_others({}, 4, 1), ValidationError);
}

TEST_CASE("where one place is all there is, what was kept for other hosts is settled",
          "[checkpoint][local]") {
  MemoryFileSystem disk;
  prepare_tag(disk, save_parts(disk, "/c", 2, kFirst));  // all files lie here
  open_epoch(disk, "/c", 2, Unfinished::kKeep);
  prepare_tag(disk, save_half(disk, {"global_step2", 2, 2, 20}, 2));
  open_epoch(disk, "/c", 3, Unfinished::kKeep);
  CHECK(folders(disk) == Names{"global_step1.ready.1", "global_step2.ready.2"});
  open_epoch(disk, "/c", 4);
  CHECK(folders(disk) == Names{"global_step1"});
  CHECK(load(disk, "/c", "global_step1") == values_of(counting(77, 10)));
}

}  // namespace ds
