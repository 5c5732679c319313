// Token sources and samples: formats told apart, samples where the rule puts them, bad files
// refused.
#include "data/tokens/dataset.h"

#include <stdlib.h>

#include <array>
#include <numeric>

#include "data/data_loader.h"
#include "data/indexed_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

void put(FileSystem& fs, const std::string& path, std::span<const std::byte> bytes) {
  fs.create(path)->write(0, bytes);
}
void put(FileSystem& fs, const std::string& path, const std::string& text) {
  put(fs, path, std::as_bytes(std::span(text)));
}

// A llm.c shard with the tokens begin .. begin + count - 1.
template <class T>
void put_shard(FileSystem& fs, const std::string& path, int32_t magic, int32_t version, int count,
               T begin) {
  std::array<int32_t, 256> header{magic, version, count};
  std::vector<T> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), begin);
  const auto file = fs.create(path);
  file->write(0, std::as_bytes(std::span(header)));
  file->append(std::as_bytes(std::span(tokens)));
}

std::vector<int32_t> sample(const SampleSet& set, int64_t k) {
  std::vector<int32_t> out(static_cast<size_t>(set.sequence_length()) + 1);
  set.read(k, out);
  return out;
}

SampleSet open_set(FileSystem& fs, const std::vector<std::string>& paths, int64_t length,
                   int64_t vocab) {
  return {open_token_sources(fs, paths, ByteTokenizer()), length, vocab};
}

}  // namespace

TEST_CASE("samples overlap by the one token that is target and input", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/t.txt", "0123456789ab");
  const SampleSet set = open_set(fs, {"/t.txt"}, 4, 256);
  CHECK(set.size() == 2);  // (12 - 1) / 4
  CHECK(sample(set, 0) == std::vector<int32_t>{'0', '1', '2', '3', '4'});
  CHECK(sample(set, 1) == std::vector<int32_t>{'4', '5', '6', '7', '8'});
  CHECK_THROWS_AS(sample(set, 2), InternalError);
  CHECK(open_set(fs, {"/t.txt"}, 11, 256).size() == 1);
  CHECK_THROWS_WITH(open_set(fs, {"/t.txt"}, 12, 256), Catch::Contains("12 tokens make no sample"));
}

TEST_CASE("text files are one run of tokens across file borders", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/a", "abc");
  put(fs, "/b", "defgh");
  const auto sources =
      open_token_sources(fs, std::vector<std::string>{"/a", "/b"}, ByteTokenizer());
  REQUIRE(sources.size() == 1);
  CHECK(sources[0]->size() == 8);
  const SampleSet set(sources, 6, 256);
  CHECK(sample(set, 0) == std::vector<int32_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g'});
  CHECK(sources[0]->locate(2) == "/a at byte 2");
  CHECK(sources[0]->locate(3) == "/b at byte 0");
}

TEST_CASE("llm.c shards of both widths are read, and no sample crosses shards", "[data]") {
  MemoryFileSystem fs;
  put_shard<uint16_t>(fs, "/0.bin", 20240520, 1, 11, 65000);
  put_shard<uint32_t>(fs, "/1.bin", 20240801, 7, 9, 100000);
  const SampleSet set = open_set(fs, {"/0.bin", "/1.bin"}, 4, 200000);
  CHECK(set.size() == 2 + 2);
  CHECK(sample(set, 1) == std::vector<int32_t>{65004, 65005, 65006, 65007, 65008});
  CHECK(sample(set, 2) == std::vector<int32_t>{100000, 100001, 100002, 100003, 100004});
  CHECK_FALSE(set.documents().has_value());
}

TEST_CASE("damaged shards are refused", "[data]") {
  MemoryFileSystem fs;
  put_shard<uint16_t>(fs, "/short.bin", 20240520, 1, 11, 0);
  fs.truncate("/short.bin", 1024 + 21);
  CHECK_THROWS_WITH(
      open_llmc_shard(fs, "/short.bin"),
      Catch::Contains("announces 11 tokens, 1046 bytes in all, but the file has 1045"));
  fs.truncate("/short.bin", 100);
  CHECK_THROWS_WITH(open_llmc_shard(fs, "/short.bin"), Catch::Contains("too few"));
  put_shard<uint16_t>(fs, "/version.bin", 20240520, 2, 11, 0);
  CHECK_THROWS_WITH(open_llmc_shard(fs, "/version.bin"), Catch::Contains("version 2"));
  put_shard<uint16_t>(fs, "/negative.bin", 20240520, 1, 0, 0);
  fs.flip_bit("/negative.bin", 8 * 8 + 31);
  CHECK_THROWS_AS(open_llmc_shard(fs, "/negative.bin"), DataError);
  put(fs, "/other.bin", "not a shard");
  CHECK_THROWS_WITH(open_set(fs, {"/other.bin"}, 4, 256), Catch::Contains("neither a token shard"));
  CHECK_THROWS_AS(open_set(fs, {"/missing.txt"}, 4, 256), InputMissing);
}

TEST_CASE("token ids are no text", "[data]") {
  MemoryFileSystem fs;
  put_shard<uint16_t>(fs, "/0.bin", 20240520, 1, 9, 95);
  put(fs, "/t.txt", "some text");
  const auto text_in = [&](const std::vector<std::string>& paths) { return has_text(fs, paths); };
  CHECK_FALSE(text_in({}));
  CHECK_FALSE(text_in({"/0.bin"}));
  CHECK(text_in({"/0.bin", "/t.txt"}));
  CHECK_THROWS_AS(text_in({"/missing.txt"}), InputMissing);
}

TEST_CASE("a token outside the vocabulary is named with its file and offset", "[data]") {
  MemoryFileSystem fs;
  put_shard<uint16_t>(fs, "/0.bin", 20240520, 1, 9, 95);
  const SampleSet set = open_set(fs, {"/0.bin"}, 4, 100);
  CHECK_THROWS_WITH(sample(set, 1),
                    "/0.bin at byte 1034: token id 100 is outside the vocabulary of 100");
  CHECK_THROWS_AS(set.check(1000), DataError);
  CHECK_NOTHROW(set.check(4));
  put_shard<uint32_t>(fs, "/1.bin", 20240801, 7, 9, 0xfffffff0U);
  CHECK_THROWS_WITH(sample(open_set(fs, {"/1.bin"}, 4, 100), 0),
                    Catch::Contains("token id 4294967280"));
}

TEST_CASE("a file that shrinks while in use is an error with its name", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/t.txt", "0123456789ab");
  const SampleSet set = open_set(fs, {"/t.txt"}, 4, 256);
  fs.truncate("/t.txt", 6);
  CHECK_NOTHROW(sample(set, 0));
  CHECK_THROWS_WITH(sample(set, 1), "/t.txt: the file shrank from 12 to 6 bytes while in use");
}

TEST_CASE("the validation split takes the last samples and leaves one for training", "[data]") {
  MemoryFileSystem fs;
  put(fs, "/t.txt", std::string(101, 'x') + "y");
  const SampleSet set = open_set(fs, {"/t.txt"}, 10, 256);
  REQUIRE(set.size() == 10);
  const auto [train, validation] = set.split(0.11);
  CHECK(train.size() == 8);
  CHECK(validation.size() == 2);
  CHECK(sample(validation, 0) == sample(set, 8));
  CHECK_THROWS_AS(sample(train, 8), InternalError);
  CHECK(set.split(0.999).first.size() == 1);
  CHECK_THROWS_AS(set.split(1.0), InternalError);
  CHECK_THROWS_AS(open_set(fs, {"/t.txt"}, 100, 256).split(0.5), DataError);
}

TEST_CASE("text is tokenised by a tokenizer.json, and its defects carry the file's name",
          "[data]") {
  RealFileSystem real;
  const std::string folder = testing::source_directory() + "/tests/data/tokenizer/golden/";
  const auto tokenizer = load_tokenizer(real, folder + "gpt2.json");
  MemoryFileSystem fs;
  put(fs, "/a", "the theme of these things");
  put(fs, "/bad", "ab\xff");
  const auto sources = open_token_sources(fs, std::vector<std::string>{"/a"}, *tokenizer);
  std::vector<int32_t> ids(static_cast<size_t>(sources[0]->size()));
  sources[0]->read(0, ids);
  CHECK(tokenizer->decode(ids) == "the theme of these things");
  CHECK(sources[0]->locate(1) == "/a at token 1");
  CHECK_THROWS_WITH(open_token_sources(fs, std::vector<std::string>{"/bad"}, *tokenizer),
                    Catch::StartsWith("/bad: "));
}

TEST_CASE("an indexed data set is found by any of its names and read across items", "[data]") {
  RealFileSystem fs;
  std::string folder = "/tmp/ds_dataset_test.XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string prefix = folder + "/corpus";
  {
    IndexedDatasetWriter writer(fs, prefix, {IndexFormat::kMmap, ItemType::kUint16});
    writer.add_item(std::vector<int64_t>{1, 2, 3});
    writer.add_item(std::vector<int64_t>{});
    writer.add_item(std::vector<int64_t>{4, 5});
    writer.end_document();
    writer.finish();
  }
  for (const std::string& name : {prefix, prefix + ".bin", prefix + ".idx"}) {
    const SampleSet set = open_set(fs, {name}, 4, 6);
    CHECK(sample(set, 0) == std::vector<int32_t>{1, 2, 3, 4, 5});
    CHECK(set.documents() == 1);
  }
  CHECK_THROWS_WITH(sample(open_set(fs, {prefix}, 4, 5), 0),
                    Catch::Contains("corpus.bin at item 2, token 1: token id 5"));
  fs.remove_tree(folder);
}

TEST_CASE("ranks and micro-steps see the same global batch in every layout", "[data]") {
  MemoryFileSystem fs;
  put_shard<uint16_t>(fs, "/0.bin", 20240520, 1, 4 * 30 + 1, 0);
  const SampleSet set = open_set(fs, {"/0.bin"}, 4, 1000);
  const Sampler sampler(set.size(), SampleOrder::kShuffled, 3);
  const auto samples_of_step = [&](const BatchShape& shape, int64_t step) {
    std::vector<int64_t> out;
    for (int64_t micro = 0; micro < shape.accumulation; ++micro) {
      for (int64_t rank = 0; rank < shape.ranks; ++rank) {
        const Batch batch = DataLoader(set, sampler, shape, rank).next(step, micro);
        REQUIRE(batch.tokens.shape() == Shape{shape.micro_batch, 4});
        for (int64_t row = 0; row < shape.micro_batch; ++row) {
          const int32_t* tokens = batch.tokens.data<int32_t>() + row * 4;
          const int32_t* targets = batch.targets.data<int32_t>() + row * 4;
          out.push_back(batch.samples[static_cast<size_t>(row)]);
          CHECK(tokens[0] == out.back() * 4);
          CHECK(targets[0] == tokens[1]);
          CHECK(targets[3] == tokens[3] + 1);
        }
      }
    }
    return out;
  };
  for (int64_t step = 0; step < 6; ++step) {
    const auto expected = samples_of_step({8, 1, 1}, step);
    CHECK(samples_of_step({2, 2, 2}, step) == expected);
    CHECK(samples_of_step({1, 2, 4}, step) == expected);
  }
  CHECK_THROWS_AS(DataLoader(set, sampler, {1, 1, 2}, 2), InternalError);
  CHECK_THROWS_AS(DataLoader(set, sampler, {1, 1, 2}, 0).next(0, 1), InternalError);
}
