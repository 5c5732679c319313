#include "data/text_kind.h"

#include <algorithm>
#include <array>

#include "config/reader/utf8.h"
#include "core/error.h"

namespace ds {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic;
  std::string_view name;
  std::string_view advice;
};

constexpr std::array kFormats = {
    Format{"PK\x03\x04"sv, "a ZIP archive (.zip, .npz, .docx)", "unpack it"},
    Format{"\x93NUMPY"sv, "a NumPy array",
           "write token ids as an llm.c shard or an indexed dataset"},
    Format{"\x89HDF\r\n"sv, "an HDF5 file", "write its texts as JSON lines"},
    Format{"ARROW1"sv, "an Arrow file", "write its texts as JSON lines"},
    Format{"\xFD"
           "7zXZ\0"sv,
           "compressed with xz", "decompress it, or use gzip or zstd"},
    Format{"BZh"sv, "compressed with bzip2", "decompress it, or use gzip or zstd"},
    Format{"\x04\x22\x4D\x18"sv, "compressed with lz4", "decompress it, or use gzip or zstd"},
    Format{"\x1F\x8B"sv, "compressed with gzip inside another compression", "decompress it once"},
    Format{"\x28\xB5\x2F\xFD"sv, "compressed with zstd inside another compression",
           "decompress it once"},
    Format{"%PDF-"sv, "a PDF document", "extract its text"},
    Format{"\x89PNG"sv, "an image", "only text can be trained on"},
    Format{"\xFF\xD8\xFF"sv, "an image", "only text can be trained on"},
    Format{"\x7F"
           "ELF"sv,
           "a program", "only text can be trained on"},
    Format{"SQLite format 3\0"sv, "an SQLite database", "write its texts as JSON lines"},
    Format{"\xFF\xFE"sv, "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
    Format{"\xFE\xFF"sv, "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
    Format{"MMIDIDX\0"sv, "the index of a dataset without its .bin",
           "put PREFIX.bin and PREFIX.idx beside each other"},
    Format{"TNTIDX\0"sv, "the index of a dataset without its .bin",
           "put PREFIX.bin and PREFIX.idx beside each other"},
};

constexpr size_t kTarMagicAt = 257;

[[noreturn]] void refuse(const std::string& where, std::string_view what, std::string_view advice) {
  throw DataError(fmt::format("{}: it is no text but {}; {}", where, what, advice));
}

// Bytes that are no part of valid UTF-8. The ends of a sample may have cut a character.
size_t invalid_bytes(std::string_view sample) {
  size_t invalid = 0;
  while (!sample.empty()) {
    const size_t at = first_invalid_utf8(sample);
    if (at == std::string_view::npos) break;
    ++invalid;
    sample.remove_prefix(at + 1);
  }
  return invalid;
}

}  // namespace

Compression compression_of(std::string_view head) {
  if (head.starts_with("\x1F\x8B\x08"sv)) return Compression::kGzip;
  if (head.starts_with("\x28\xB5\x2F\xFD"sv)) return Compression::kZstd;
  return Compression::kNone;
}

TextLayout layout_of(std::string_view path) {
  for (const std::string_view ending : {".gz", ".gzip", ".zst", ".zstd"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  const bool lines =
      path.ends_with(".jsonl") || path.ends_with(".ndjson") || path.ends_with(".json");
  return lines ? TextLayout::kJsonLines : TextLayout::kPlain;
}

void require_text(std::string_view sample, SampleFrom at, const std::string& where) {
  if (at == SampleFrom::kBeginning) {
    if (sample.starts_with("PAR1")) {
      throw Unsupported(fmt::format(
          "{}: Parquet needs Apache Arrow (build option DS_WITH_ARROW), which this build is "
          "without; write its texts as JSON lines",
          where));
    }
    for (const Format& format : kFormats) {
      if (sample.starts_with(format.magic)) refuse(where, format.name, format.advice);
    }
    if (sample.size() > kTarMagicAt && sample.substr(kTarMagicAt).starts_with("ustar")) {
      refuse(where, "a tar archive", "unpack it");
    }
  }
  if (const size_t nul = sample.find('\0'); nul != std::string_view::npos) {
    refuse(where,
           fmt::format("binary: {} of {} bytes looked at are NUL", std::ranges::count(sample, '\0'),
                       sample.size()),
           "token ids are read from llm.c shards and indexed datasets");
  }
  constexpr size_t kCut = 6;  // at most three bytes of a character at each end
  const size_t invalid = invalid_bytes(sample);
  if (invalid > sample.size() / 10 + kCut) {
    refuse(where,
           fmt::format("binary or in another encoding: {} of {} bytes looked at are invalid UTF-8",
                       invalid, sample.size()),
           "convert text with iconv -t UTF-8");
  }
}

}  // namespace ds
