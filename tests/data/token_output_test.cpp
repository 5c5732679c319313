// Files of token ids: read back by the readers of training data, whole or not there at all.
#include "data/token_output.h"

#include <atomic>
#include <thread>

#include "core/status/error.h"
#include "data/cache/file_lock.h"
#include "data/tokens/dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/redirected_streams.h"

using namespace ds;

namespace {

std::vector<int32_t> ids_of(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.size()));
  source.read(0, ids);
  return ids;
}

std::vector<std::string> names_in(const FileSystem& files, const std::string& folder) {
  std::vector<std::string> out;
  for (const DirectoryEntry& entry : files.list(folder)) out.push_back(entry.name);
  return out;
}

// Two documents of 3 and 4 tokens, the second in two parts.
void put_documents(TokenOutput& output) {
  output.add(std::vector<int32_t>{1, 2, 3});
  output.end_document();
  output.add(std::vector<int32_t>{4});
  output.add(std::vector<int32_t>{5, 6, 7});
  output.end_document();
}

}  // namespace

TEST_CASE("an indexed output is a data set with an item for each document", "[data]") {
  const testing::TemporaryDirectory here;
  RealFileSystem files;
  for (const TokenFormat format : {TokenFormat::kMegatron, TokenFormat::kDeepSpeed}) {
    for (const int64_t vocab : {int64_t{1000}, int64_t{100'000}}) {
      const std::string prefix = here.path() / "set";
      const auto output = create_token_output(
          files, {.prefix = prefix, .format = format, .vocab_size = vocab, .replaces = true});
      put_documents(*output);
      CHECK(output->finish() == std::vector<std::string>{prefix + ".bin", prefix + ".idx"});
      const auto source = open_indexed(prefix);
      CHECK(ids_of(*source) == std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7});
      CHECK(source->documents() == 2);
      CHECK(source->locate(3) == prefix + ".bin at item 1, token 0");
      CHECK(files.open(prefix + ".bin")->size() == (vocab == 1000 ? 14 : 28));
    }
  }
}

TEST_CASE("shards hold no more tokens than they may, and go on in the next", "[data]") {
  MemoryFileSystem files;
  files.make_directory("/d");
  for (const int64_t vocab : {int64_t{65536}, int64_t{65537}}) {
    const auto output = create_token_output(files, {.prefix = "/d/set",
                                                    .format = TokenFormat::kLlmc,
                                                    .vocab_size = vocab,
                                                    .shard_tokens = 3,
                                                    .replaces = true});
    put_documents(*output);
    CHECK(output->finish() ==
          std::vector<std::string>{"/d/set_000000.bin", "/d/set_000001.bin", "/d/set_000002.bin"});
    std::vector<int32_t> all;
    for (const auto& [name, tokens] :
         {std::pair{"/d/set_000000.bin", 3}, {"/d/set_000001.bin", 3}, {"/d/set_000002.bin", 1}}) {
      const auto shard = open_llmc_shard(files, name);
      REQUIRE(shard->size() == tokens);
      CHECK(files.open(name)->size() == 1024 + tokens * (vocab == 65536 ? 2 : 4));
      const std::vector<int32_t> ids = ids_of(*shard);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    CHECK(all == std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7});
  }
}

TEST_CASE("files that are there are replaced only where that is asked for", "[data]") {
  MemoryFileSystem files;
  files.make_directory("/d");
  TokenOutputOptions options{
      .prefix = "/d/set", .format = TokenFormat::kLlmc, .vocab_size = 10, .shard_tokens = 2};
  const auto first = create_token_output(files, options);
  put_documents(*first);
  CHECK(first->finish().size() == 4);
  CHECK_THROWS_WITH(create_token_output(files, options),
                    "/d/set_000000.bin is there already: --force replaces it, --output names "
                    "another");
  CHECK_THROWS_WITH(create_token_output(files, {.prefix = "/none/set", .vocab_size = 10}),
                    "--output /none/set: there is no folder /none");
  files.create("/d/set_extra.bin");
  files.create("/d/set_20240101.bin");  // no shard of ours: there are not so many
  options.replaces = true;
  options.shard_tokens = 5;
  const auto second = create_token_output(files, options);
  put_documents(*second);
  CHECK(second->finish().size() == 2);
  CHECK(names_in(files, "/d") == std::vector<std::string>{"set_000000.bin", "set_000001.bin",
                                                          "set_20240101.bin", "set_extra.bin"});
}

TEST_CASE("an id outside of the vocabulary is refused, and leaves no file", "[data]") {
  for (const TokenFormat format : {TokenFormat::kMegatron, TokenFormat::kLlmc}) {
    MemoryFileSystem files;
    files.make_directory("/d");
    {
      const auto output =
          create_token_output(files, {.prefix = "/d/set", .format = format, .vocab_size = 7});
      CHECK(names_in(files, "/d").size() == 1);
      CHECK_THROWS_WITH(put_documents(*output), "token id 7 is outside of the vocabulary of 7");
      CHECK_THROWS_AS(output->add(std::vector<int32_t>{-1}), DataError);
    }
    CHECK(names_in(files, "/d").empty());
  }
}

TEST_CASE("whichever call fails, a set is whole or not there", "[data]") {
  for (const TokenFormat format : {TokenFormat::kMegatron, TokenFormat::kLlmc}) {
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kShortWrite}) {
      bool is_done = false;
      for (int64_t call = 0; !is_done; ++call) {
        MemoryFileSystem disk;
        disk.make_directory("/d");
        FaultFileSystem files(disk);
        files.fail_call(call, fault);
        try {
          const auto output = create_token_output(
              files, {.prefix = "/d/set", .format = format, .vocab_size = 10, .shard_tokens = 4});
          put_documents(*output);
          output->finish();
          is_done = true;
        } catch (const IoError&) {
          // At the last call the set is whole, and may be told as not durable.
          const std::vector<std::string> names = names_in(disk, "/d");
          CAPTURE(call, names);
          CHECK((names.empty() || (names.size() == 2 && call + 1 == files.call_count())));
        }
        if (is_done) CHECK(names_in(disk, "/d").size() == 2);
        REQUIRE(call < 100);
      }
    }
  }
}

TEST_CASE("what another run writes or has written is not touched", "[data]") {
  for (const TokenFormat format : {TokenFormat::kMegatron, TokenFormat::kLlmc}) {
    MemoryFileSystem files;
    files.make_directory("/d");
    const TokenOutputOptions options{.prefix = "/d/set", .format = format, .vocab_size = 10};
    const auto first = create_token_output(files, options);
    CHECK_THROWS_WITH(create_token_output(files, options), Catch::Contains("another run"));
    put_documents(*first);
    files.create(format == TokenFormat::kLlmc ? "/d/set_000000.bin" : "/d/set.idx");
    CHECK_THROWS_WITH(first->finish(), Catch::Contains("is there already"));
  }
}

TEST_CASE("one at a time holds a lock whose file goes with it", "[data]") {
  const testing::TemporaryDirectory here;
  const std::string path = here.path() / "set.lock";
  {
    const auto held = PassingLock::try_take(path);
    REQUIRE(held != nullptr);
    CHECK(PassingLock::try_take(path) == nullptr);
  }
  CHECK(names_in(RealFileSystem(), here.path()).empty());
  std::atomic<int> holders = 0, taken = 0, met = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        const auto lock = PassingLock::try_take(path);
        if (lock == nullptr) continue;
        ++taken;
        if (++holders > 1) ++met;
        --holders;
      }
    });
  }
  threads.clear();
  CHECK(taken > 0);
  CHECK(met == 0);
  CHECK(names_in(RealFileSystem(), here.path()).empty());
}

TEST_CASE("a lock whose file was removed or is another one by now has none", "[data]") {
  const testing::TemporaryDirectory here;
  RealFileSystem files;
  const std::string path = here.path() / "set.lock";
  const FileLock lock(path);
  CHECK(lock.has_its_file());
  files.remove(path);
  CHECK_FALSE(lock.has_its_file());
  files.create(path);
  CHECK_FALSE(lock.has_its_file());
}
