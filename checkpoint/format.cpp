#include "checkpoint/format.h"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstring>
#include <limits>

#include "core/files/digest.h"
#include "core/status/error.h"
#include "core/text/hex.h"

namespace ds {
namespace {

constexpr std::string_view kTrailerMagic = "DSPIECES";
constexpr std::string_view kFormatName = "dslaunch checkpoint";
constexpr std::string_view kDigestStart = R"({"digest":")";
constexpr size_t kDigestDigits = 32;

[[noreturn]] void refuse(const std::string& path, const std::string& defect) {
  throw ValidationError(fmt::format("{}: {}", path, defect));
}

using Json = rapidjson::Writer<rapidjson::StringBuffer>;

void put_string(Json& json, std::string_view key, std::string_view value) {
  json.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
  json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
}

void put_number(Json& json, std::string_view key, int64_t value) {
  json.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
  json.Int64(value);
}

void put_range(Json& json, const Range& range) {
  json.StartArray();
  json.Int64(range.begin);
  json.Int64(range.end);
  json.EndArray();
}

void put_region(Json& json, const Region& region) {
  if (!region.cut.is_whole()) {
    json.Key("cut");
    json.StartArray();
    for (const std::vector<Range>& ranges : region.cut.axes) {
      json.StartArray();
      for (const Range& range : ranges) put_range(json, range);
      json.EndArray();
    }
    json.EndArray();
  }
  json.Key("within");
  put_range(json, region.within);
}

void put_numbers(Json& json, std::string_view key, std::span<const int64_t> values) {
  json.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
  json.StartArray();
  for (const int64_t value : values) json.Int64(value);
  json.EndArray();
}

// A JSON object with typed, checked access; every defect names the file.
class Fields {
 public:
  Fields(const std::string& path, const rapidjson::Value& value) : path_(path), value_(value) {
    if (!value.IsObject()) refuse(path, "expected a JSON object");
  }

  bool has(const char* key) const { return value_.HasMember(key); }
  const rapidjson::Value& get(const char* key) const {
    const auto found = value_.FindMember(key);
    if (found == value_.MemberEnd()) refuse(path_, fmt::format("'{}' is missing", key));
    return found->value;
  }
  std::string text(const char* key) const {
    const rapidjson::Value& value = get(key);
    if (!value.IsString()) refuse(path_, fmt::format("'{}' is not a string", key));
    return {value.GetString(), value.GetStringLength()};
  }
  int64_t number(const char* key, int64_t largest) const {
    const rapidjson::Value& value = get(key);
    if (!value.IsInt64() || value.GetInt64() < 0 || value.GetInt64() > largest) {
      refuse(path_, fmt::format("'{}' is not an integer from 0 to {}", key, largest));
    }
    return value.GetInt64();
  }
  std::vector<int64_t> numbers(const char* key) const { return numbers_in(key, get(key)); }
  // "cut": per axis a list of ranges.
  std::vector<std::vector<Range>> ranges_by_axis(const char* key) const {
    std::vector<std::vector<Range>> axes;
    for (const rapidjson::Value& axis : list(key)) {
      std::vector<Range>& ranges = axes.emplace_back();
      for (const rapidjson::Value& range : list_in(key, axis)) {
        ranges.push_back(range_in(key, range));
      }
    }
    return axes;
  }
  Range range(const char* key) const { return range_in(key, get(key)); }
  rapidjson::Value::ConstArray list(const char* key) const { return list_in(key, get(key)); }
  std::string digest(const char* key) const {
    std::string out = text(key);
    check_digest(key, out);
    return out;
  }
  void check_digest(const char* key, std::string_view digest) const {
    const bool hex = digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    if (!hex || digest.size() != kDigestDigits) {
      refuse(path_, fmt::format("'{}' is not a digest of {} hex digits", key, kDigestDigits));
    }
  }

 private:
  rapidjson::Value::ConstArray list_in(const char* key, const rapidjson::Value& value) const {
    if (!value.IsArray()) refuse(path_, fmt::format("'{}' is not a list", key));
    return value.GetArray();
  }
  std::vector<int64_t> numbers_in(const char* key, const rapidjson::Value& value) const {
    std::vector<int64_t> out;
    for (const rapidjson::Value& one : list_in(key, value)) {
      if (!one.IsInt64() || one.GetInt64() < 0) {
        refuse(path_, fmt::format("'{}' holds something other than whole numbers", key));
      }
      out.push_back(one.GetInt64());
    }
    return out;
  }
  Range range_in(const char* key, const rapidjson::Value& value) const {
    const std::vector<int64_t> ends = numbers_in(key, value);
    if (ends.size() != 2) refuse(path_, fmt::format("'{}' holds something other than pairs", key));
    return {ends[0], ends[1]};
  }

  const std::string& path_;
  const rapidjson::Value& value_;
};

constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

rapidjson::Document parse_json(const std::string& path, const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
      text.data(), text.size());
  if (document.HasParseError()) {
    refuse(path, fmt::format("not valid JSON at byte {}", document.GetErrorOffset()));
  }
  return document;
}

DType parse_stored_dtype(const std::string& path, const std::string& name) {
  try {
    return parse_dtype(name);
  } catch (const ConfigError&) {
    refuse(path, fmt::format("unknown dtype '{}'", name));
  }
}

// As version 1 said it: a range of elements, or a box.
Region parse_region_1(const Fields& fields, const Shape& shape) {
  const std::vector<int64_t> begin = fields.numbers("begin");
  const std::vector<int64_t> end = fields.numbers("end");
  DS_CHECK(!begin.empty() && begin.size() == end.size(), "{} begins, {} ends", begin.size(),
           end.size());
  if (begin.size() == 1) return Region::flat(begin[0], end[0]);
  Cut box;
  for (size_t axis = 0; axis < begin.size(); ++axis) {
    std::vector<Range>& ranges = box.axes.emplace_back();
    if (begin[axis] != end[axis]) ranges.push_back({begin[axis], end[axis]});
  }
  return Region::all_of(std::move(box), shape);
}

Region parse_region(const Fields& fields) {
  Region region;
  if (fields.has("cut")) {
    region.cut.axes = fields.ranges_by_axis("cut");
    DS_CHECK(!region.cut.axes.empty(), "'cut' has no axes");
  }
  region.within = fields.range("within");
  return region;
}

PieceInfo parse_piece(const std::string& path, const rapidjson::Value& value, int64_t version,
                      int64_t data_bytes) {
  const Fields fields(path, value);
  PieceInfo piece;
  piece.name = fields.text("name");
  piece.dtype = parse_stored_dtype(path, fields.text("dtype"));
  piece.offset = fields.number("offset", data_bytes);
  try {
    const std::vector<int64_t> extents = fields.numbers("shape");
    piece.shape = Shape(extents);
    const int64_t numel = piece.shape.numel();  // refuses overflow, and so bounds the region's size
    if (numel > kAnyNumber / static_cast<int64_t>(size_of(piece.dtype))) refuse(path, "overflow");
    piece.region = version == 1 ? parse_region_1(fields, piece.shape) : parse_region(fields);
    require_inside(piece.region, piece.shape);
  } catch (const InternalError& error) {
    refuse(path, fmt::format("piece '{}': {}", piece.name, error.what()));
  }
  if (piece.bytes() > data_bytes - piece.offset) {
    refuse(path, fmt::format("piece '{}': bytes [{}, {}) leave the {} data bytes", piece.name,
                             piece.offset, piece.offset + piece.bytes(), data_bytes));
  }
  return piece;
}

void put_little_endian(std::span<std::byte> out, uint64_t value) {
  for (std::byte& byte : out.first(8)) {
    byte = static_cast<std::byte>(value & 0xffU);
    value >>= 8;
  }
}

uint64_t get_little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

}  // namespace

std::string digest_of(std::span<const std::byte> bytes) { return hex(xxh3_128(bytes)); }

std::string pieces_file_name(int rank) { return fmt::format("rank-{:05}.pieces", rank); }

std::string to_text(const FileIndex& index) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  json.StartObject();
  put_number(json, "version", kIndexVersion);
  put_string(json, "tag", index.tag);
  put_number(json, "epoch", index.epoch);
  put_number(json, "rank", index.rank);
  put_number(json, "data_bytes", index.data_bytes);
  json.Key("pieces");
  json.StartArray();
  for (const PieceInfo& piece : index.pieces) {
    json.StartObject();
    put_string(json, "name", piece.name);
    put_string(json, "dtype", name_of(piece.dtype));
    put_numbers(json, "shape", piece.shape.extents());
    put_region(json, piece.region);
    put_number(json, "offset", piece.offset);
    json.EndObject();
  }
  json.EndArray();
  json.Key("states");
  json.StartObject();
  for (const auto& [name, text] : index.states) put_string(json, name, text);
  json.EndObject();
  std::string blocks;
  for (const std::string& digest : index.blocks) blocks += digest;
  put_string(json, "blocks", blocks);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

FileIndex parse_index(const std::string& path, const std::string& text) {
  const rapidjson::Document document = parse_json(path, text);
  const Fields fields(path, document);
  const int64_t version = fields.number("version", kAnyNumber);
  if (version < 1 || version > kIndexVersion) {
    refuse(path,
           fmt::format("format version {}, this build reads 1 to {}", version, kIndexVersion));
  }
  FileIndex index;
  index.tag = fields.text("tag");
  index.epoch = fields.number("epoch", kAnyNumber);
  index.rank = static_cast<int>(fields.number("rank", std::numeric_limits<int>::max()));
  index.data_bytes = fields.number("data_bytes", kAnyNumber);
  for (const rapidjson::Value& piece : fields.list("pieces")) {
    index.pieces.push_back(parse_piece(path, piece, version, index.data_bytes));
  }
  const rapidjson::Value& states = fields.get("states");
  if (!states.IsObject()) refuse(path, "'states' is not an object");
  for (const auto& item : states.GetObject()) {
    if (!item.value.IsString()) refuse(path, "a state is not a string");
    index.states[{item.name.GetString(), item.name.GetStringLength()}] = {
        item.value.GetString(), item.value.GetStringLength()};
  }
  const std::string blocks = fields.text("blocks");
  const int64_t expected =
      index.data_bytes / kBlockBytes + (index.data_bytes % kBlockBytes != 0 ? 1 : 0);
  if (static_cast<int64_t>(blocks.size() / kDigestDigits) != expected ||
      blocks.size() % kDigestDigits != 0) {
    refuse(path, fmt::format("{} block digests for {} data bytes, expected {}",
                             blocks.size() / kDigestDigits, index.data_bytes, expected));
  }
  for (size_t at = 0; at < blocks.size(); at += kDigestDigits) {
    index.blocks.push_back(blocks.substr(at, kDigestDigits));
  }
  return index;
}

namespace {

std::vector<Ancestor> ancestors_in(const std::string& path,
                                   const rapidjson::Value::ConstArray& list) {
  std::vector<Ancestor> out;
  for (const rapidjson::Value& value : list) {
    const Fields ancestor(path, value);
    out.push_back({.begun_in = ancestor.number("begun_in", kAnyNumber),
                   .step = ancestor.number("step", kAnyNumber)});
  }
  if (out.size() > kMostAncestors) {
    refuse(path, fmt::format("'after' has {} lines, at most {}", out.size(), kMostAncestors));
  }
  return out;
}

FileVote vote_in(const std::string& path, const Fields& file, int64_t epoch) {
  FileVote vote{.name = file.text("name"),
                .rank = static_cast<int>(file.number("rank", std::numeric_limits<int>::max())),
                .epoch = epoch,
                .bytes = file.number("bytes", kAnyNumber),
                .digest = file.digest("digest")};
  // Also keeps names such as ../x from leaving the directory.
  if (vote.name != pieces_file_name(vote.rank)) {
    refuse(path, fmt::format("file '{}' of rank {}, expected {}", vote.name, vote.rank,
                             pieces_file_name(vote.rank)));
  }
  return vote;
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  json.StartObject();
  put_string(json, "format", kFormatName);
  put_number(json, "version", kManifestVersion);
  put_string(json, "tag", manifest.tag);
  put_number(json, "step", manifest.step);
  put_number(json, "epoch", manifest.epoch);
  put_number(json, "begun_in", manifest.begun_in);
  json.Key("after");
  json.StartArray();
  for (const Ancestor& ancestor : manifest.after) {
    json.StartObject();
    put_number(json, "begun_in", ancestor.begun_in);
    put_number(json, "step", ancestor.step);
    json.EndObject();
  }
  json.EndArray();
  if (manifest.skipped) put_number(json, "skipped", 1);
  json.Key("files");
  json.StartArray();
  DS_CHECK(manifest.hosts.empty() || manifest.hosts.size() == manifest.files.size(),
           "manifest: {} hosts for {} files", manifest.hosts.size(), manifest.files.size());
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const FileVote& file = manifest.files[i];
    json.StartObject();
    put_string(json, "name", file.name);
    put_number(json, "rank", file.rank);
    put_number(json, "bytes", file.bytes);
    put_string(json, "digest", file.digest);
    if (!manifest.hosts.empty()) put_string(json, "host", manifest.hosts[i]);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  const std::string rest(buffer.GetString() + 1, buffer.GetSize() - 1);
  return fmt::format("{}{}\",{}", kDigestStart, digest_of(std::as_bytes(std::span(rest))), rest);
}

Manifest parse_manifest(const std::string& path, const std::string& text) {
  const size_t rest_begin = kDigestStart.size() + kDigestDigits + 2;
  if (!text.starts_with(kDigestStart) || text.size() < rest_begin ||
      text.substr(rest_begin - 2, 2) != "\",") {
    refuse(path, "not a manifest: it does not begin with its digest");
  }
  const std::string stated = text.substr(kDigestStart.size(), kDigestDigits);
  const std::string found =
      digest_of(std::as_bytes(std::span(text.data() + rest_begin, text.size() - rest_begin)));
  if (stated != found) {
    refuse(path, fmt::format("corrupt: its digest is {}, expected {}", found, stated));
  }
  const rapidjson::Document document = parse_json(path, text);
  const Fields fields(path, document);
  const int64_t version = fields.number("version", kAnyNumber);
  if (fields.text("format") != kFormatName || version != kManifestVersion) {
    refuse(path, fmt::format("format '{}' version {}, this build reads '{}' version {}",
                             fields.text("format"), version, kFormatName, kManifestVersion));
  }
  Manifest manifest;
  manifest.tag = fields.text("tag");
  manifest.step = fields.number("step", kAnyNumber);
  manifest.epoch = fields.number("epoch", kAnyNumber);
  if (fields.has("begun_in")) manifest.begun_in = fields.number("begun_in", kAnyNumber);
  manifest.knows_lines = fields.has("after");
  if (manifest.knows_lines) manifest.after = ancestors_in(path, fields.list("after"));
  manifest.skipped = fields.has("skipped") && fields.number("skipped", 1) == 1;
  for (const rapidjson::Value& value : fields.list("files")) {
    const Fields file(path, value);
    manifest.files.push_back(vote_in(path, file, manifest.epoch));
    if (file.has("host")) manifest.hosts.push_back(file.text("host"));
  }
  if (!manifest.hosts.empty() && manifest.hosts.size() != manifest.files.size()) {
    refuse(path, "some files have a host, others none");
  }
  return manifest;
}

std::vector<std::byte> to_bytes(const Trailer& trailer) {
  std::vector<std::byte> out(kTrailerBytes);
  const std::span<std::byte> bytes(out);
  std::memcpy(out.data(), kTrailerMagic.data(), kTrailerMagic.size());
  put_little_endian(bytes.subspan(8), static_cast<uint64_t>(trailer.index_offset));
  put_little_endian(bytes.subspan(16), static_cast<uint64_t>(trailer.index_bytes));
  for (size_t i = 0; i < 16; ++i) {
    out[24 + i] =
        static_cast<std::byte>(std::stoul(trailer.index_digest.substr(2 * i, 2), nullptr, 16));
  }
  const auto own = xxh3_128(bytes.first(56));
  std::memcpy(out.data() + 56, own.data(), 8);
  return out;
}

Trailer parse_trailer(const std::string& path, std::span<const std::byte> bytes,
                      int64_t file_bytes) {
  DS_CHECK(bytes.size() == kTrailerBytes, "trailer of {} bytes", bytes.size());
  const auto own = xxh3_128(bytes.first(56));
  if (std::memcmp(bytes.data(), kTrailerMagic.data(), kTrailerMagic.size()) != 0 ||
      std::memcmp(bytes.data() + 56, own.data(), 8) != 0) {
    refuse(path, fmt::format("corrupt or truncated: bytes [{}, {}) are no trailer",
                             file_bytes - kTrailerBytes, file_bytes));
  }
  const uint64_t offset = get_little_endian(bytes.subspan(8));
  const uint64_t size = get_little_endian(bytes.subspan(16));
  const auto available = static_cast<uint64_t>(file_bytes - kTrailerBytes);
  if (offset > available || size > available - offset) {
    refuse(path, fmt::format("corrupt: index of {} bytes at byte {} of a file of {}", size, offset,
                             file_bytes));
  }
  return {static_cast<int64_t>(offset), static_cast<int64_t>(size), hex(bytes.subspan(24, 16))};
}

}  // namespace ds
