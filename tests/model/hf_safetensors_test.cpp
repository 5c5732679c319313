// Safetensors: round trips, the layout other programs expect, and refusal of everything malformed.
#include "model/hf/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A file with this header text and this many data bytes.
void put_raw(FileSystem& fs, const std::string& path, const std::string& header,
             size_t data_bytes) {
  std::string text;
  for (int shift = 0; shift < 64; shift += 8) {
    text.push_back(static_cast<char>(header.size() >> shift & 0xff));
  }
  text += header + std::string(data_bytes, 'd');
  if (fs.exists(path)) fs.remove(path);
  fs.create(path)->write(0, bytes_of(text));
}

std::string defect(const std::string& header, size_t data_bytes) {
  MemoryFileSystem fs;
  put_raw(fs, "/f", header, data_bytes);
  try {
    SafetensorsFile::open(fs, "/f");
  } catch (const DataError& error) {
    return error.what();
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<SafetensorsTensor> sample(std::span<const float> wide, std::span<const BF16> narrow) {
  return {{"b.narrow", DType::kBF16, Shape{3}, std::as_bytes(narrow)},
          {"a.wide", DType::kF32, Shape{2, 3}, std::as_bytes(wide)},
          {"c.scalar", DType::kF32, Shape{}, std::as_bytes(wide.first(1))},
          {"empty", DType::kF32, Shape{0, 4}, {}}};
}

const std::array<float, 6> kWide = {1, 2, 3, 4, 5, 6};
const std::array<BF16, 3> kNarrow = {BF16(1.5F), BF16(-2.0F), BF16(0.25F)};

}  // namespace

TEST_CASE("tensors survive a round trip through safetensors", "[model]") {
  MemoryFileSystem fs;
  write_safetensors(fs, "/w.safetensors", sample(kWide, kNarrow));
  const SafetensorsFile file = SafetensorsFile::open(fs, "/w.safetensors");
  CHECK(file.names() == std::vector<std::string>{"a.wide", "b.narrow", "c.scalar", "empty"});
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.info("a.wide").shape == Shape{2, 3});
  CHECK(file.info("b.narrow").dtype() == DType::kBF16);
  CHECK(file.info("empty").bytes == 0);
  std::array<float, 6> wide{};
  file.read("a.wide", std::as_writable_bytes(std::span(wide)));
  CHECK(wide == kWide);
  std::array<float, 2> part{};
  file.read_part("a.wide", 8, std::as_writable_bytes(std::span(part)));
  CHECK(part == std::array<float, 2>{3, 4});
  CHECK_THROWS_AS(file.read("a.wide", std::as_writable_bytes(std::span(part))), InternalError);
  CHECK_THROWS_WITH(file.info("other"), "/w.safetensors: there is no tensor 'other'");
}

TEST_CASE("a written file has a padded header and aligned tensors in a fixed order", "[model]") {
  MemoryFileSystem fs;
  write_safetensors(fs, "/w", sample(kWide, kNarrow));
  const std::string text = fs.read_text("/w", 1 << 20);
  const auto header_bytes = static_cast<size_t>(static_cast<unsigned char>(text[0])) +
                            256 * static_cast<size_t>(static_cast<unsigned char>(text[1]));
  CHECK(header_bytes % 8 == 0);
  CHECK(text.substr(8, 33) == R"({"__metadata__":{"format":"pt"},")");
  CHECK(text.size() == 8 + header_bytes + 24 + 4 + 6);
  const SafetensorsFile file = SafetensorsFile::open(fs, "/w");
  CHECK(file.info("a.wide").offset % 8 == 0);
  CHECK(file.info("b.narrow").offset == static_cast<int64_t>(8 + header_bytes + 28));
}

TEST_CASE("a safetensors writer streams tensors in any order and checks each", "[model]") {
  MemoryFileSystem fs;
  const auto tensors = sample(kWide, kNarrow);
  {
    SafetensorsWriter writer(fs, "/w", tensors);
    writer.write("c.scalar", tensors[2].data);
    CHECK_THROWS_AS(writer.write("c.scalar", tensors[2].data), InternalError);
    CHECK_THROWS_AS(writer.write("unknown", {}), InternalError);
    CHECK_THROWS_AS(writer.write("a.wide", tensors[2].data), InternalError);
    CHECK_THROWS_AS(writer.finish(), InternalError);
  }
  CHECK(fs.list("/").empty());  // an abandoned file leaves nothing
}

TEST_CASE("a failing disk leaves no safetensors file behind, whichever call fails", "[model]") {
  MemoryFileSystem clean;
  FaultFileSystem counting(clean);
  write_safetensors(counting, "/w", sample(kWide, kNarrow));
  for (int64_t k = 0; k < counting.call_count(); ++k) {
    MemoryFileSystem memory;
    FaultFileSystem faulty(memory);
    faulty.fail_call(k, Fault::kShortWrite);
    CHECK_THROWS_AS(write_safetensors(faulty, "/w", sample(kWide, kNarrow)), DiskFull);
    const bool after_rename = counting.calls()[static_cast<size_t>(k)] == "sync_directory /";
    CHECK(memory.list("/").empty() != after_rename);
  }
}

TEST_CASE("malformed safetensors headers are refused with the reason", "[model]") {
  using Catch::Contains;
  const std::string ok = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(defect("{" + ok + "}", 8) == "accepted");
  CHECK(defect("{}", 0) == "accepted");
  CHECK_THAT(defect("{" + ok + "}", 9), Contains("the tensors end at data byte 8"));
  CHECK_THAT(defect("{" + ok + "}", 7), Contains("do not lie in the 7 data bytes"));
  CHECK_THAT(defect("{" + ok + "," + ok + "}", 8), Contains("two tensors named 'a'"));
  CHECK_THAT(defect("[1]", 0), Contains("does not begin with '{'"));
  CHECK_THAT(defect("", 0), Contains("does not begin with '{'"));
  CHECK_THAT(defect("{" + ok, 8), Contains("not valid JSON"));
  CHECK_THAT(defect("{\"a\xff\":1}", 8), Contains("not valid JSON"));
  CHECK_THAT(defect(R"({"a":1})", 8), Contains("is not an object"));
  CHECK_THAT(defect(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8), Contains("no dtype"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
             Contains("unknown dtype 'F33'"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), Contains("no shape"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
             Contains("extents must be integers"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8),
             Contains("extents must be integers"));
  CHECK_THAT(
      defect(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      Contains("overflows"));
  CHECK_THAT(
      defect(R"({"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0),
      Contains("empty tensor"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,2],"data_offsets":[0,8]}})", 8),
             Contains("7 axes"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
             Contains("do not lie in"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8),
             Contains("do not lie in"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8),
             Contains("two integers"));
  CHECK_THAT(
      defect(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 8),
      Contains("two integers"));
  CHECK_THAT(defect(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8),
             Contains("span 8 bytes"));
  CHECK_THAT(defect("{" + ok + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
             Contains("overlap"));
  CHECK_THAT(defect("{" + ok + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
             Contains("gap"));
  CHECK_THAT(defect(R"({"__metadata__":{"x":1}})", 0), Contains("other than strings"));
  CHECK_THAT(defect(R"({"__metadata__":[]})", 0), Contains("__metadata__ is not an object"));
}

TEST_CASE("hostile header lengths and depths are refused without allocating", "[model]") {
  MemoryFileSystem fs;
  fs.create("/short")->write(0, bytes_of("1234567"));
  CHECK_THROWS_WITH(SafetensorsFile::open(fs, "/short"), Catch::Contains("too few"));
  fs.create("/huge")->write(0, bytes_of(std::string(8, '\xff') + "{}"));
  CHECK_THROWS_WITH(SafetensorsFile::open(fs, "/huge"),
                    Catch::Contains("18446744073709551615, but only 2 bytes follow"));
  const std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  CHECK_THAT(defect(deep, 0), Catch::Contains("not valid JSON"));
  const std::string closed =
      "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK_THAT(defect(closed, 0), Catch::Contains("is not an object"));
  CHECK_THROWS_AS(SafetensorsFile::open(fs, "/missing"), InputMissing);
}

TEST_CASE("a tensor of an exotic dtype is listed, and refused only when its dtype is asked for",
          "[model]") {
  MemoryFileSystem fs;
  put_raw(fs, "/f", R"({"mask":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", 4);
  const SafetensorsFile file = SafetensorsFile::open(fs, "/f");
  CHECK(file.info("mask").bytes == 4);
  CHECK_THROWS_WITH(file.info("mask").dtype(), Catch::Contains("BOOL"));
}

TEST_CASE("a folder of shards reads as one", "[model]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  const auto tensors = sample(kWide, kNarrow);
  write_safetensors(fs, "/m/model-00001-of-00002.safetensors", std::span(tensors).first(1));
  write_safetensors(fs, "/m/model-00002-of-00002.safetensors", std::span(tensors).subspan(1, 2));
  const std::string index = "/m/model.safetensors.index.json";
  fs.write_text_atomically(index, R"({"metadata":{"total_size":34},"weight_map":{
      "b.narrow":"model-00001-of-00002.safetensors",
      "a.wide":"model-00002-of-00002.safetensors"}})");
  const SafetensorsFolder folder = SafetensorsFolder::open(fs, "/m");
  CHECK(folder.names() == std::vector<std::string>{"a.wide", "b.narrow"});
  std::array<float, 6> wide{};
  folder.read("a.wide", std::as_writable_bytes(std::span(wide)));
  CHECK(wide == kWide);
  CHECK_THROWS_AS(folder.info("c.scalar"), DataError);

  fs.write_text_atomically(index, R"({"weight_map":{"x":"model-00001-of-00002.safetensors"}})");
  CHECK_THROWS_WITH(SafetensorsFolder::open(fs, "/m"), Catch::Contains("does not have it"));
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "", ".", "a\\u0000b"}) {
    fs.write_text_atomically(index, fmt::format(R"({{"weight_map":{{"x":"{}"}}}})", shard));
    CHECK_THROWS_WITH(SafetensorsFolder::open(fs, "/m"), Catch::Contains("plain file name"));
  }
  fs.write_text_atomically(index, R"({"weight_map":[]})");
  CHECK_THROWS_WITH(SafetensorsFolder::open(fs, "/m"), Catch::Contains("no weight_map"));
  fs.remove(index);
  CHECK_THROWS_AS(SafetensorsFolder::open(fs, "/m"), InputMissing);
}

TEST_CASE("flipping any header bit of a safetensors file never crashes the reader", "[model]") {
  MemoryFileSystem fs;
  write_safetensors(fs, "/w", sample(kWide, kNarrow));
  const auto bits = 8 * (fs.open("/w")->size() - 34);
  for (int64_t bit = 0; bit < bits; ++bit) {
    fs.flip_bit("/w", bit);
    try {
      SafetensorsFile::open(fs, "/w");  // a flip inside a name is legal
    } catch (const DataError&) {
    }
    fs.flip_bit("/w", bit);
  }
  SUCCEED();
}
