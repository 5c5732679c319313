#include "data/text/text_kind.h"

#include <algorithm>
#include <array>

#include "core/files/lfs_pointer.h"
#include "core/status/error.h"
#include "core/text/utf8.h"

namespace ds {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic;
  std::string_view name;
  std::string_view advice;
};

constexpr std::string_view kOnlyText = "only text can be trained on";
constexpr std::string_view kAsJsonLines = "write its texts as JSON lines";
constexpr std::string_view kOtherCompression = "decompress it, or use gzip or zstd";
constexpr std::string_view kUnpack = "unpack it; a document is saved as plain text by its program";
constexpr std::string_view kFromUtf16 =
    "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE, and give the new one";
constexpr std::string_view kFromUtf32 =
    "convert it: iconv -f UTF-32 -t UTF-8 FILE > NEW_FILE, and give the new one";
constexpr std::string_view kBothFiles = "put PREFIX.bin and PREFIX.idx beside each other";

// The first that fits counts: UTF-32 begins as UTF-16 does.
constexpr std::array kFormats = {
    Format{"PK\x03\x04"sv, "a ZIP archive (.zip, .npz, .docx, .xlsx, .pt)", kUnpack},
    Format{"PK\x05\x06"sv, "an empty ZIP archive", kUnpack},
    Format{"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", kUnpack},
    Format{"Rar!\x1A\x07"sv, "a RAR archive", kUnpack},
    Format{"\xD0\xCF\x11\xE0"sv, "an Office document", "save it as plain text"},
    Format{"\x93NUMPY"sv, "a NumPy array",
           "write token ids as an llm.c shard or an indexed dataset"},
    Format{"\x89HDF\r\n"sv, "an HDF5 file", kAsJsonLines},
    Format{"ARROW1"sv, "an Arrow file", kAsJsonLines},
    Format{"\xFF\xFF\xFF\xFF"sv, "an Arrow stream, as datasets' save_to_disk writes it",
           "write its texts as JSON lines: datasets.load_from_disk(FOLDER).to_json(NEW_FILE)"},
    Format{"Obj\x01"sv, "an Avro file", kAsJsonLines},
    Format{"\x80\x02"sv, "a Python pickle", kAsJsonLines},
    Format{"\x80\x03"sv, "a Python pickle", kAsJsonLines},
    Format{"\x80\x04"sv, "a Python pickle", kAsJsonLines},
    Format{"\x80\x05"sv, "a Python pickle", kAsJsonLines},
    Format{"GGUF\3\0"sv, "weights of a model (GGUF)", kOnlyText},
    Format{"\xFD"
           "7zXZ\0"sv,
           "compressed with xz", kOtherCompression},
    Format{"BZh"sv, "compressed with bzip2", kOtherCompression},
    Format{"\x04\x22\x4D\x18"sv, "compressed with lz4", kOtherCompression},
    Format{"\x1F\x9D"sv, "compressed with compress", kOtherCompression},
    Format{"\x1F\x8B"sv, "compressed with gzip inside another compression", "decompress it once"},
    Format{"\x28\xB5\x2F\xFD"sv, "compressed with zstd inside another compression",
           "decompress it once"},
    Format{"%PDF-"sv, "a PDF document", "extract its text, as pdftotext does"},
    Format{"\x89PNG"sv, "an image", kOnlyText},
    Format{"\xFF\xD8\xFF"sv, "an image", kOnlyText},
    Format{"GIF87a"sv, "an image", kOnlyText},
    Format{"GIF89a"sv, "an image", kOnlyText},
    Format{"OggS\0"sv, "a sound", kOnlyText},
    Format{"\x7F"
           "ELF"sv,
           "a program", kOnlyText},
    Format{"SQLite format 3\0"sv, "an SQLite database",
           "write its texts as JSON lines: sqlite3 -json FILE 'SELECT ...' | jq -c '.[]'"},
    Format{kLfsPointer, kLfsWords, kLfsAdvice},
    Format{"\xFF\xFE\0\0"sv, "UTF-32 text", kFromUtf32},
    Format{"\0\0\xFE\xFF"sv, "UTF-32 text", kFromUtf32},
    Format{"\xFF\xFE"sv, "UTF-16 text", kFromUtf16},
    Format{"\xFE\xFF"sv, "UTF-16 text", kFromUtf16},
    Format{"MMIDIDX\0"sv, "the index of a dataset without its .bin", kBothFiles},
    Format{"TNTIDX\0"sv, "the index of a dataset without its .bin", kBothFiles},
};

constexpr size_t kTarMagicAt = 257;

[[noreturn]] void refuse(const std::string& where, std::string_view what, std::string_view advice) {
  throw DataError(fmt::format("{}: it is no text but {}; {}", where, what, advice));
}

// The length of the header, and JSON after it.
bool is_safetensors(std::string_view sample) {
  constexpr size_t kLengthBytes = 8;
  return sample.size() > kLengthBytes && sample.substr(4, 4) == "\0\0\0\0"sv &&
         sample.substr(kLengthBytes).starts_with("{\"");
}

// "LE" or "BE" where the NUL bytes of a sample are the upper halves of most of its characters.
std::string_view byte_order_of_utf16(std::string_view sample) {
  constexpr size_t kFewest = 16;
  if (sample.size() < kFewest) return "";
  size_t even = 0;
  size_t odd = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    if (sample[i] == '\0') ++(i % 2 == 0 ? even : odd);
  }
  const size_t characters = sample.size() / 2;
  const size_t most = characters - characters / 4;
  if (odd >= most && even == 0) return "LE";
  if (even >= most && odd == 0) return "BE";
  return "";
}

constexpr std::array<std::string_view, 4> kCompressionEndings = {".gz", ".gzip", ".zst", ".zstd"};
constexpr std::array<std::string_view, 5> kJsonLinesEndings = {".jsonl", ".jsonlines", ".jl",
                                                               ".ndjson", ".json"};

}  // namespace

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

size_t invalid_utf8_bytes(std::string_view sample) {
  size_t invalid = 0;
  while (!sample.empty()) {
    const size_t at = first_invalid_utf8(sample);
    if (at == std::string_view::npos) break;
    ++invalid;
    sample.remove_prefix(at + 1);
  }
  return invalid;
}

std::string_view whole_characters(std::string_view text) {
  const auto length_of = [](unsigned char lead) -> size_t {
    if (lead >= 0xF0) return 4;
    if (lead >= 0xE0) return 3;
    return lead >= 0xC0 ? 2 : 1;
  };
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    if (length_of(static_cast<unsigned char>(text[at])) > back) return text.substr(0, at);
  }
  return text;
}

Compression compression_of(std::string_view head) {
  if (head.starts_with("\x1F\x8B\x08"sv)) return Compression::kGzip;
  if (head.starts_with("\x28\xB5\x2F\xFD"sv)) return Compression::kZstd;
  return Compression::kNone;
}

std::string ending_of(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (;;) {
    const size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return "";
    std::string ending(name.substr(dot));
    std::ranges::transform(ending, ending.begin(), ascii_lower);
    if (std::ranges::find(kCompressionEndings, ending) == kCompressionEndings.end()) return ending;
    name = name.substr(0, dot);
  }
}

TextLayout layout_of(std::string_view path) {
  const bool lines =
      std::ranges::find(kJsonLinesEndings, ending_of(path)) != kJsonLinesEndings.end();
  return lines ? TextLayout::kJsonLines : TextLayout::kPlain;
}

void require_no_format(std::string_view sample, const std::string& where) {
  if (sample.starts_with("PAR1")) {
    throw Unsupported(fmt::format(
        "{}: Parquet needs Apache Arrow (build option DS_WITH_ARROW), which this build is "
        "without; write its texts as JSON lines: duckdb -c \"COPY (FROM 'FILE.parquet') TO "
        "'FILE.jsonl' (FORMAT json)\"",
        where));
  }
  for (const Format& format : kFormats) {
    if (sample.starts_with(format.magic)) refuse(where, format.name, format.advice);
  }
  if (sample.size() > kTarMagicAt && sample.substr(kTarMagicAt).starts_with("ustar")) {
    refuse(where, "a tar archive", "unpack it");
  }
  if (is_safetensors(sample)) refuse(where, "weights of a model (safetensors)", kOnlyText);
  const std::string_view order = byte_order_of_utf16(sample);
  if (order.empty()) return;
  refuse(where, "UTF-16 text without a byte order mark",
         fmt::format("convert it: iconv -f UTF-16{} -t UTF-8 FILE > NEW_FILE, and give the new one",
                     order));
}

void require_text(std::string_view sample, SampleFrom at, const std::string& where) {
  if (at == SampleFrom::kBeginning) require_no_format(sample, where);
  if (sample.find('\0') != std::string_view::npos) {
    refuse(where,
           fmt::format("binary: {} of {} bytes looked at are NUL", std::ranges::count(sample, '\0'),
                       sample.size()),
           "token ids are read from llm.c shards and indexed datasets");
  }
  constexpr size_t kCut = 6;  // at most three bytes of a character at each end
  const size_t invalid = invalid_utf8_bytes(sample);
  if (invalid > sample.size() / 10 + kCut) {
    refuse(where,
           fmt::format("binary or in another encoding: {} of {} bytes looked at are invalid UTF-8",
                       invalid, sample.size()),
           "convert text with iconv -f ITS_ENCODING -t UTF-8 FILE > NEW_FILE");
  }
}

}  // namespace ds
