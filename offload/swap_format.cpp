#include "offload/swap_format.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/files/digest.h"
#include "core/memory/rounding.h"
#include "core/text/hex.h"
#include "core/values/index.h"

namespace ds {

namespace {

constexpr std::string_view kFileMagic = "DSSWAPFL";
constexpr std::string_view kExtentMagic = "DSSWAPEX";
constexpr uint64_t kVersion = 1;
constexpr size_t kDigestAt = 16;   // after magic and version
constexpr size_t kCoveredAt = 32;  // what the digest covers
constexpr size_t kHostBytes = 64;
// Magic, version, digest; epoch, rank, world, generation, length, block_bytes; job and key with
// their lengths.
constexpr size_t kBlocksAt = kCoveredAt + size_t{6} * 8 + 8 + kSwapJobBytes + 8 + kSwapKeyBytes;

// Front to back over bytes that are known to suffice.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  void number(int64_t value) { number(static_cast<uint64_t>(value)); }
  void number(uint64_t value) {
    for (std::byte& byte : next(8)) {
      byte = static_cast<std::byte>(value & 0xffU);
      value >>= 8;
    }
  }
  void bytes(std::span<const std::byte> from) {
    const std::span<std::byte> to = next(from.size());
    std::ranges::copy(from, to.begin());
  }
  void text(std::string_view text, size_t room) {
    DS_CHECK(text.size() <= room, "swap file: \"{}\" has {} bytes, expected at most {}", text,
             text.size(), room);
    number(uint64_t{text.size()});
    const auto to = next(room).first(text.size());
    std::ranges::copy(std::as_bytes(std::span(text)), to.begin());
  }

 private:
  std::span<std::byte> next(size_t count) {
    const std::span<std::byte> part = out_.first(count);
    out_ = out_.subspan(count);
    return part;
  }
  std::span<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  uint64_t number() {
    uint64_t value = 0;
    const std::span<const std::byte> bytes = next(8);
    for (size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
    return value;
  }
  int64_t signed_number() { return static_cast<int64_t>(number()); }
  std::string text(size_t room) {
    const size_t size = std::min<size_t>(number(), room);
    const std::span<const std::byte> bytes = next(room).first(size);
    std::string text(size, '\0');
    std::memcpy(text.data(), bytes.data(), size);
    return text;
  }
  SwapDigest digest() {
    SwapDigest digest{};
    std::ranges::copy(next(digest.size()), digest.begin());
    return digest;
  }

 private:
  std::span<const std::byte> next(size_t count) {
    const std::span<const std::byte> part = in_.first(count);
    in_ = in_.subspan(count);
    return part;
  }
  std::span<const std::byte> in_;
};

// Magic, version and a place for the digest, which seal() fills in when the rest is written.
void begin(Writer& writer, std::string_view magic) {
  writer.bytes(std::as_bytes(std::span(magic)));
  writer.number(kVersion);
  writer.bytes(SwapDigest{});
}

void seal(std::span<std::byte> header) {
  const SwapDigest digest = xxh3_128(header.subspan(kCoveredAt));
  std::ranges::copy(digest, header.subspan(kDigestAt).begin());
}

struct Complaint {
  std::string what;
  std::string found;
  std::string expected;
  std::string_view hint;
};

bool has_magic(std::span<const std::byte> header, std::string_view magic) {
  return header.size() >= magic.size() &&
         std::ranges::equal(header.first(magic.size()), std::as_bytes(std::span(magic)));
}

// What is wrong with a header as such, if anything is.
std::vector<Complaint> complaints_of_seal(std::span<const std::byte> header,
                                          std::string_view magic) {
  if (!has_magic(header, magic)) {
    SwapDigest start{};
    const size_t shown = std::min<size_t>(8, header.size());
    std::copy_n(header.begin(), shown, start.begin());
    return {{.what = "magic",
             .found = hex(start).substr(0, 2 * shown),
             .expected = std::string(magic),
             .hint = "never written, or written over"}};
  }
  Reader reader(header.subspan(magic.size()));
  if (const uint64_t version = reader.number(); version != kVersion) {
    return {{.what = "format version",
             .found = std::to_string(version),
             .expected = std::to_string(kVersion),
             .hint = "bytes changed, or the file of another build"}};
  }
  const SwapDigest said = reader.digest();
  const SwapDigest found = xxh3_128(header.subspan(kCoveredAt));
  if (found == said) return {};
  return {{.what = "digest of the header",
           .found = hex(found),
           .expected = hex(said),
           .hint = "bytes changed on the disk or on the way"}};
}

}  // namespace

std::string to_string(const SwapOwner& owner) {
  return fmt::format("job {}, generation {}, rank {} of {}", owner.job, owner.epoch, owner.rank,
                     owner.world);
}

std::vector<std::byte> encode(const SwapFileHeader& header) {
  std::vector<std::byte> page(to_size(kSwapPage));
  Writer writer(page);
  begin(writer, kFileMagic);
  writer.number(header.owner.epoch);
  writer.number(int64_t{header.owner.rank});
  writer.number(int64_t{header.owner.world});
  writer.number(header.file_bytes);
  writer.number(header.pid);
  writer.text(header.owner.job, kSwapJobBytes);
  writer.text(std::string_view(header.host).substr(0, kHostBytes), kHostBytes);
  seal(page);
  return page;
}

bool has_swap_magic(std::span<const std::byte> page) { return has_magic(page, kFileMagic); }

SwapFileHeader parse_swap_file_header(std::span<const std::byte> page, std::string_view path) {
  if (page.size() != to_size(kSwapPage)) {
    throw SwapCorrupt(fmt::format("swap file {}: the header has {} bytes, expected {}: truncated",
                                  path, page.size(), kSwapPage));
  }
  for (const Complaint& c : complaints_of_seal(page, kFileMagic)) {
    throw SwapCorrupt(fmt::format("swap file {}, header at byte 0: {} is {}, expected {} ({})",
                                  path, c.what, c.found, c.expected, c.hint));
  }
  Reader reader(page.subspan(kCoveredAt));
  SwapFileHeader header;
  header.owner.epoch = reader.signed_number();
  header.owner.rank = static_cast<int>(reader.signed_number());
  header.owner.world = static_cast<int>(reader.signed_number());
  header.file_bytes = reader.signed_number();
  header.pid = reader.signed_number();
  header.owner.job = reader.text(kSwapJobBytes);
  header.host = reader.text(kHostBytes);
  return header;
}

namespace {

int64_t whole_pages(int64_t bytes) { return round_up(bytes, kSwapPage); }

int64_t blocks_of(int64_t length, int64_t block_bytes) { return divide_up(length, block_bytes); }

std::span<const std::byte> block_of(std::span<const std::byte> data, int64_t block,
                                    int64_t block_bytes) {
  const size_t at = to_size(block * block_bytes);
  return data.subspan(at, std::min(to_size(block_bytes), data.size() - at));
}

}  // namespace

SwapExtent describe_swap_extent(const SwapOwner& owner, std::string_view key, int64_t generation,
                                int64_t block_bytes, std::span<const std::byte> data) {
  SwapExtent extent{.owner = owner,
                    .key = std::string(key),
                    .generation = generation,
                    .length = narrow<int64_t>(data.size()),
                    .block_bytes = block_bytes,
                    .blocks = {}};
  for (int64_t block = 0; block < blocks_of(extent.length, block_bytes); ++block) {
    extent.blocks.push_back(xxh3_128(block_of(data, block, block_bytes)));
  }
  return extent;
}

int64_t swap_extent_header_bytes(int64_t length, int64_t block_bytes) {
  return whole_pages(narrow<int64_t>(kBlocksAt) +
                     blocks_of(length, block_bytes) * narrow<int64_t>(sizeof(SwapDigest)));
}

int64_t swap_extent_bytes(int64_t length, int64_t block_bytes) {
  return swap_extent_header_bytes(length, block_bytes) + whole_pages(length);
}

void encode(const SwapExtent& extent, std::span<std::byte> into) {
  std::ranges::fill(into, std::byte{0});
  Writer writer(into);
  begin(writer, kExtentMagic);
  writer.number(extent.owner.epoch);
  writer.number(int64_t{extent.owner.rank});
  writer.number(int64_t{extent.owner.world});
  writer.number(extent.generation);
  writer.number(extent.length);
  writer.number(extent.block_bytes);
  writer.text(extent.owner.job, kSwapJobBytes);
  writer.text(extent.key, kSwapKeyBytes);
  for (const SwapDigest& digest : extent.blocks) writer.bytes(digest);
  seal(into);
}

namespace {

// What the header says, which is whole, against what was written.
std::vector<Complaint> complaints_of_fields(std::span<const std::byte> header,
                                            const SwapExtent& expected) {
  Reader reader(header.subspan(kCoveredAt));
  const int64_t epoch = reader.signed_number();
  const int64_t rank = reader.signed_number();
  const int64_t world = reader.signed_number();
  const int64_t generation = reader.signed_number();
  const int64_t length = reader.signed_number();
  const int64_t block_bytes = reader.signed_number();
  const std::string job = reader.text(kSwapJobBytes);
  const std::string key = reader.text(kSwapKeyBytes);
  const SwapOwner& owner = expected.owner;
  std::vector<Complaint> complaints;
  const auto compare = [&](std::string_view what, const auto& found, const auto& wanted,
                           std::string_view hint) {
    if (found == wanted) return;
    complaints.push_back(
        {std::string(what), fmt::format("{}", found), fmt::format("{}", wanted), hint});
  };
  compare("job", job, owner.job, "the file of another job");
  compare("generation", epoch, owner.epoch, "the file of another generation of this job");
  compare("rank", rank, int64_t{owner.rank}, "the file of another rank");
  compare("world size", world, int64_t{owner.world}, "the file of another generation of this job");
  compare("key", key, expected.key, "another tensor's extent");
  compare("generation", generation, expected.generation,
          generation < expected.generation ? "an old write; the last one never arrived"
                                           : "written by somebody else");
  compare("length", length, expected.length, "another tensor's extent");
  compare("block size", block_bytes, expected.block_bytes, "written by another build");
  return complaints;
}

// The header's digests against those of the write, and the data's against them.
std::vector<Complaint> complaints_of_blocks(std::span<const std::byte> header,
                                            std::span<const std::byte> data,
                                            const SwapExtent& expected) {
  Reader reader(header.subspan(kBlocksAt));
  const int64_t data_at = narrow<int64_t>(header.size());
  for (size_t block = 0; block < expected.blocks.size(); ++block) {
    const SwapDigest said = reader.digest();
    const SwapDigest& wanted = expected.blocks[block];
    const int64_t at = narrow<int64_t>(block) * expected.block_bytes;
    const auto bytes = block_of(data, narrow<int64_t>(block), expected.block_bytes);
    const std::string name = fmt::format("block {} ({} bytes, {} behind the extent's start)", block,
                                         bytes.size(), data_at + at);
    if (said != wanted) {
      return {{fmt::format("header's digest of {}", name), hex(said), hex(wanted),
               "written by somebody else"}};
    }
    if (const SwapDigest found = xxh3_128(bytes); found != wanted) {
      return {{fmt::format("digest of {}", name), hex(found), hex(wanted),
               "bytes changed on the disk or on the way, or a write that never arrived"}};
    }
  }
  return {};
}

}  // namespace

void check_swap_extent(std::span<const std::byte> header, std::span<const std::byte> data,
                       const SwapExtent& expected, const SwapPlace& place) {
  DS_CHECK(std::cmp_equal(header.size(),
                          swap_extent_header_bytes(expected.length, expected.block_bytes)) &&
               std::cmp_equal(data.size(), expected.length),
           "swap file {}: {} and {} bytes of \"{}\" to check, which has {}", place.path,
           header.size(), data.size(), expected.key, expected.length);
  std::vector<Complaint> complaints = complaints_of_seal(header, kExtentMagic);
  if (complaints.empty()) complaints = complaints_of_fields(header, expected);
  if (complaints.empty()) complaints = complaints_of_blocks(header, data, expected);
  if (complaints.empty()) return;
  const Complaint& first = complaints.front();
  throw SwapCorrupt(fmt::format("swap file {}, \"{}\" at byte {}: {} is {}, expected {} ({})",
                                place.path, expected.key, place.offset, first.what, first.found,
                                first.expected, first.hint));
}

}  // namespace ds
