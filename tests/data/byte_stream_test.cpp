// Files as streams of bytes: whatever the sizes of reads, parts and texts, what comes out is what
// was put in, and a damaged file is refused with its name.
#include "data/text/byte_stream.h"

#include <random>

#include "core/status/error.h"
#include "tests/data/compressed.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using ds::testing::gzip;
using ds::testing::zstd;

namespace {

std::unique_ptr<ByteStream> stream_of(MemoryFileSystem& fs, std::string_view bytes,
                                      Compression compression) {
  if (fs.exists("/f")) fs.remove("/f");
  fs.create("/f")->write(0, std::as_bytes(std::span(bytes)));
  return open_byte_stream(fs.open("/f"), compression);
}

// All of a stream, read into pieces of these sizes, in turn.
std::string read_in_pieces(ByteStream& stream, const std::vector<size_t>& sizes) {
  std::string out;
  for (size_t i = 0;; ++i) {
    std::string piece(sizes[i % sizes.size()], '\0');
    const size_t count = stream.read(piece);
    REQUIRE(count <= piece.size());
    if (count == 0) break;
    out.append(piece, 0, count);
  }
  CHECK(stream.read(std::span(out).first(0)) == 0);
  return out;
}

std::string all_of(std::string_view bytes, Compression compression) {
  MemoryFileSystem fs;
  return read_in_pieces(*stream_of(fs, bytes, compression), {1 << 16});
}

std::string refusal_of(std::string_view bytes, Compression compression) {
  try {
    all_of(bytes, compression);
  } catch (const DataError& error) {
    return error.what();
  }
  return "taken";
}

// Text that compresses neither to nothing nor not at all.
std::string random_text(std::mt19937& random, size_t size) {
  std::string text;
  while (text.size() < size) {
    const auto letter = static_cast<char>('a' + random() % 26);
    text.append(1 + random() % 20, letter);
  }
  text.resize(size);
  return text;
}

std::string compressed(std::string_view text, Compression compression) {
  if (compression == Compression::kNone) return std::string(text);
  return compression == Compression::kGzip ? gzip(text) : zstd(text);
}

constexpr Compression kAll[] = {Compression::kNone, Compression::kGzip, Compression::kZstd};
constexpr Compression kCompressed[] = {Compression::kGzip, Compression::kZstd};

}  // namespace

TEST_CASE("a stream gives the same bytes whatever pieces it is read in", "[data]") {
  std::mt19937 random(3);
  for (const size_t size : {0, 1, 2, 4095, 70'000, 600'000}) {
    const std::string text = random_text(random, size);
    for (const Compression compression : kAll) {
      const std::string bytes = compressed(text, compression);
      for (const std::vector<size_t>& pieces :
           {std::vector<size_t>{1 << 20}, {4096}, {777, 1, 65'536}, {(1 << 18) + 1}}) {
        MemoryFileSystem fs;
        CAPTURE(size, static_cast<int>(compression), pieces.front());
        CHECK((read_in_pieces(*stream_of(fs, bytes, compression), pieces) == text));
      }
    }
  }
}

TEST_CASE("a stream read byte by byte is whole as well", "[data]") {
  std::mt19937 random(4);
  const std::string text = random_text(random, 3000);
  for (const Compression compression : kAll) {
    MemoryFileSystem fs;
    CHECK(
        (read_in_pieces(*stream_of(fs, compressed(text, compression), compression), {1}) == text));
  }
}

TEST_CASE("any number of compressed parts, empty ones too, are one stream", "[data]") {
  std::mt19937 random(5);
  for (const Compression compression : kCompressed) {
    for (int trial = 0; trial < 20; ++trial) {
      std::string bytes, text;
      for (size_t parts = random() % 6; parts > 0; --parts) {
        const std::string part = random_text(random, random() % 3 == 0 ? 0 : random() % 40'000);
        bytes += compressed(part, compression);
        text += part;
      }
      if (bytes.empty()) continue;
      MemoryFileSystem fs;
      CAPTURE(trial);
      CHECK((read_in_pieces(*stream_of(fs, bytes, compression), {1 + random() % 5000}) == text));
    }
  }
}

TEST_CASE("a part that fills the reader's room exactly is no end", "[data]") {
  for (const Compression compression : kCompressed) {
    const std::string bytes = compressed(std::string(1000, 'a'), compression) +
                              compressed(std::string(1000, 'b'), compression);
    MemoryFileSystem fs;
    CHECK(read_in_pieces(*stream_of(fs, bytes, compression), {1000}) ==
          std::string(1000, 'a') + std::string(1000, 'b'));
  }
}

TEST_CASE("a truncated file is refused as truncated, at whatever byte it ends", "[data]") {
  for (const Compression compression : kCompressed) {
    const std::string whole = compressed("some text, and some more of it", compression);
    for (size_t length = 4; length < whole.size(); ++length) {
      CAPTURE(length, whole.size());
      CHECK_THAT(refusal_of(whole.substr(0, length), compression),
                 Catch::StartsWith("/f: ") &&
                     Catch::EndsWith("it ends in the middle; the file is truncated"));
    }
    CHECK_THAT(refusal_of(whole + whole.substr(0, 10), compression), Catch::Contains("truncated"));
  }
}

TEST_CASE("a flipped bit in the data is found by the checksum", "[data]") {
  std::mt19937 random(6);
  const std::string text = random_text(random, 2000);
  for (const Compression compression : kCompressed) {
    const std::string whole = compressed(text, compression);
    for (size_t byte = 20; byte < whole.size(); byte += 11) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
      CAPTURE(byte);
      CHECK_THAT(refusal_of(damaged, compression), Catch::StartsWith("/f: "));
    }
  }
}

TEST_CASE("what is not of the format is refused with the format's name", "[data]") {
  CHECK_THAT(refusal_of("plain text", Compression::kGzip),
             Catch::StartsWith("/f: gzip data: damaged: "));
  CHECK_THAT(refusal_of("plain text", Compression::kZstd),
             Catch::StartsWith("/f: zstd data: damaged: "));
  CHECK_THAT(refusal_of(gzip("text") + "plain", Compression::kGzip),
             Catch::Contains("gzip data: damaged"));
  CHECK_THAT(refusal_of(zstd("text") + "plain", Compression::kZstd),
             Catch::Contains("zstd data: damaged"));
}

TEST_CASE("as much as a small text may come out of any file, however small", "[data]") {
  const std::string most(kSmallText, 'a');
  for (const Compression compression : kCompressed) {
    const std::string bytes = compressed(most, compression);
    REQUIRE(static_cast<int64_t>(bytes.size()) * kLargestRatio < kSmallText);
    CHECK(all_of(bytes, compression).size() == most.size());
    CHECK_THAT(refusal_of(compressed(most + most, compression), compression),
               Catch::Contains(fmt::format("more than {} times its", kLargestRatio)) &&
                   Catch::Contains("decompress it to a file"));
  }
}

TEST_CASE("a large text that is not suspiciously small in its file is read", "[data]") {
  std::mt19937 random(9);
  std::string text;
  while (static_cast<int64_t>(text.size()) < kSmallText + (1 << 20)) {
    text += std::to_string(random()) + std::string(200, ' ');
  }
  for (const Compression compression : kCompressed) {
    CHECK((all_of(compressed(text, compression), compression) == text));
  }
}

TEST_CASE("a file that shrinks while it is read is an error with its name", "[data]") {
  MemoryFileSystem fs;
  const auto stream = stream_of(fs, std::string(5000, 'a'), Compression::kNone);
  std::string piece(1000, '\0');
  CHECK(stream->read(piece) == 1000);
  fs.truncate("/f", 1500);
  const auto rest = [&] {
    while (stream->read(piece) > 0) {
    }
  };
  CHECK_THROWS_WITH(rest(), Catch::Contains("/f"));
}
