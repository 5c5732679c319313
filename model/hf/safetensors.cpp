#include "model/hf/safetensors.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "core/files/create_anew.h"
#include "core/files/deepspeed_folder.h"
#include "core/files/lfs_pointer.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // the limit of the reference implementation
constexpr int64_t kLargestIndex = 1 << 28;

struct StoredType {
  std::string_view name;
  int64_t size;
  std::optional<DType> dtype;
};

constexpr std::array kStoredTypes = {
    StoredType{"F64", 8, DType::kF64},      StoredType{"I64", 8, DType::kI64},
    StoredType{"U64", 8, std::nullopt},     StoredType{"F32", 4, DType::kF32},
    StoredType{"I32", 4, DType::kI32},      StoredType{"U32", 4, std::nullopt},
    StoredType{"F16", 2, DType::kF16},      StoredType{"BF16", 2, DType::kBF16},
    StoredType{"I16", 2, std::nullopt},     StoredType{"U16", 2, std::nullopt},
    StoredType{"U8", 1, DType::kU8},        StoredType{"I8", 1, DType::kI8},
    StoredType{"BOOL", 1, std::nullopt},    StoredType{"F8_E4M3", 1, std::nullopt},
    StoredType{"F8_E5M2", 1, std::nullopt}, StoredType{"F8_E8M0", 1, std::nullopt},
};

[[noreturn]] void refuse(const std::string& path, const std::string& defect) {
  throw DataError(fmt::format("{}: {}", path, defect));
}

// Parsed without recursion, so that a deep header cannot exhaust the stack.
rapidjson::Document parse_object(const std::string& path, const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
      text.data(), text.size());
  if (document.HasParseError()) {
    refuse(path,
           fmt::format("not valid JSON at byte {} of the header: {}", document.GetErrorOffset(),
                       rapidjson::GetParseError_En(document.GetParseError())));
  }
  if (!document.IsObject()) refuse(path, "the header is not a JSON object");
  return document;
}

std::string string_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

const rapidjson::Value* member(const rapidjson::Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found == object.MemberEnd() ? nullptr : &found->value;
}

class HeaderReader {
 public:
  HeaderReader(const std::string& path, int64_t data_begin, int64_t data_bytes)
      : path_(path), data_begin_(data_begin), data_bytes_(data_bytes) {}

  SafetensorsInfo tensor(const std::string& name, const rapidjson::Value& value) const {
    if (!value.IsObject()) refuse(path_, fmt::format("tensor '{}' is not an object", name));
    SafetensorsInfo info;
    const rapidjson::Value* dtype = member(value, "dtype");
    if (dtype == nullptr || !dtype->IsString()) {
      refuse(path_, fmt::format("tensor '{}' has no dtype", name));
    }
    info.dtype_name = string_of(*dtype);
    const auto* type = std::find_if(kStoredTypes.begin(), kStoredTypes.end(),
                                    [&](const auto& t) { return t.name == info.dtype_name; });
    if (type == kStoredTypes.end()) {
      refuse(path_, fmt::format("tensor '{}' has unknown dtype '{}'", name, info.dtype_name));
    }
    info.stored_dtype = type->dtype;
    const int64_t expected = read_shape(name, value, type->size, info);
    read_offsets(name, value, expected, info);
    return info;
  }

  // Tensors must cover the data exactly, or the file smuggles bytes that no reader looks at.
  void check_cover(const std::map<std::string, SafetensorsInfo>& entries) const {
    std::vector<const std::pair<const std::string, SafetensorsInfo>*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::tie(a->second.offset, a->second.bytes) <
             std::tie(b->second.offset, b->second.bytes);
    });
    int64_t end = data_begin_;
    for (const auto* entry : order) {
      if (entry->second.offset != end) {
        refuse(path_,
               fmt::format("tensor '{}' begins at data byte {}, expected {}: {}", entry->first,
                           entry->second.offset - data_begin_, end - data_begin_,
                           entry->second.offset < end ? "tensors overlap" : "there is a gap"));
      }
      end += entry->second.bytes;
    }
    if (end != data_begin_ + data_bytes_) {
      refuse(path_, fmt::format("the tensors end at data byte {}, but the file has {} data bytes",
                                end - data_begin_, data_bytes_));
    }
  }

 private:
  // The bytes that dtype and shape ask for.
  int64_t read_shape(const std::string& name, const rapidjson::Value& value, int64_t item_size,
                     SafetensorsInfo& info) const {
    const rapidjson::Value* shape = member(value, "shape");
    if (shape == nullptr || !shape->IsArray()) {
      refuse(path_, fmt::format("tensor '{}' has no shape", name));
    }
    if (shape->Size() > Shape::kMaxRank) {
      throw Unsupported(fmt::format("{}: tensor '{}' has {} axes; at most {} are supported", path_,
                                    name, shape->Size(), Shape::kMaxRank));
    }
    std::vector<int64_t> extents;
    int64_t bytes = item_size;
    for (const rapidjson::Value& extent : shape->GetArray()) {
      if (!extent.IsInt64() || extent.GetInt64() < 0) {
        refuse(path_, fmt::format("tensor '{}': extents must be integers from 0 to 2^63-1", name));
      }
      extents.push_back(extent.GetInt64());
      if (__builtin_mul_overflow(bytes, extent.GetInt64(), &bytes)) {
        refuse(path_, fmt::format("tensor '{}': the product of its extents overflows", name));
      }
    }
    // A zero extent hides an overflow of the others from the product above.
    const bool empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
    if (empty) {
      for (int64_t& extent : extents) {
        if (extent > data_bytes_) {
          refuse(path_, fmt::format("tensor '{}': extent {} of an empty tensor", name, extent));
        }
      }
    }
    info.shape = Shape(extents);
    return empty ? 0 : bytes;
  }

  void read_offsets(const std::string& name, const rapidjson::Value& value, int64_t expected,
                    SafetensorsInfo& info) const {
    const rapidjson::Value* offsets = member(value, "data_offsets");
    if (offsets == nullptr || !offsets->IsArray() || offsets->Size() != 2 ||
        !(*offsets)[0].IsInt64() || !(*offsets)[1].IsInt64()) {
      refuse(path_, fmt::format("tensor '{}': data_offsets must be two integers", name));
    }
    const int64_t begin = (*offsets)[0].GetInt64();
    const int64_t end = (*offsets)[1].GetInt64();
    if (begin < 0 || end < begin || end > data_bytes_) {
      refuse(path_,
             fmt::format("tensor '{}': data_offsets [{}, {}) do not lie in the {} data bytes", name,
                         begin, end, data_bytes_));
    }
    if (end - begin != expected) {
      refuse(path_,
             fmt::format("tensor '{}': data_offsets span {} bytes, dtype {} and its shape {} "
                         "need {}",
                         name, end - begin, info.dtype_name, info.shape.to_string(), expected));
    }
    info.offset = data_begin_ + begin;
    info.bytes = end - begin;
  }

  const std::string& path_;
  int64_t data_begin_, data_bytes_;
};

void read_metadata(const std::string& path, const rapidjson::Value& value,
                   std::map<std::string, std::string>& metadata) {
  if (!value.IsObject()) refuse(path, "__metadata__ is not an object");
  for (const auto& item : value.GetObject()) {
    if (!item.value.IsString()) refuse(path, "__metadata__ holds something other than strings");
    metadata[string_of(item.name)] = string_of(item.value);
  }
}

int64_t read_header_length(const File& file) {
  const int64_t size = file.size();
  if (size < kLengthBytes) {
    refuse(file.path(), fmt::format("the file has {} bytes, too few for a header length", size));
  }
  std::array<std::byte, kLengthBytes> raw{};
  file.read(0, raw);
  uint64_t length = 0;
  for (size_t i = raw.size(); i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(raw[i]);
  std::string beginning(std::min(kLfsPointer.size(), to_size(size)), '\0');
  file.read(0, std::as_writable_bytes(std::span(beginning)));
  refuse_lfs_pointer(file.path(), beginning);
  if (length > static_cast<uint64_t>(size - kLengthBytes)) {
    refuse(file.path(), fmt::format("the header length is {}, but only {} bytes follow", length,
                                    size - kLengthBytes));
  }
  if (length > kLargestHeader) {
    refuse(file.path(),
           fmt::format("the header length is {}, expected at most {}", length, kLargestHeader));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

DType SafetensorsInfo::dtype() const {
  if (!stored_dtype) {
    throw Unsupported(
        fmt::format("safetensors: tensors of dtype {} are not supported", dtype_name));
  }
  return *stored_dtype;
}

SafetensorsFile SafetensorsFile::open(FileSystem& file_system, const std::string& path) {
  SafetensorsFile out;
  out.path_ = path;
  out.file_ = file_system.open(path);
  const int64_t length = read_header_length(*out.file_);
  std::string text(to_size(length), '\0');
  out.file_->read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{') refuse(path, "the header does not begin with '{'");
  const rapidjson::Document header = parse_object(path, text);
  const int64_t data_begin = kLengthBytes + length;
  const HeaderReader reader(path, data_begin, out.file_->size() - data_begin);
  for (const auto& item : header.GetObject()) {
    const std::string name = string_of(item.name);
    if (name == "__metadata__") {
      read_metadata(path, item.value, out.metadata_);
    } else if (!out.entries_.emplace(name, reader.tensor(name, item.value)).second) {
      refuse(path, fmt::format("there are two tensors named '{}'", name));
    }
  }
  reader.check_cover(out.entries_);
  return out;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> out;
  for (const auto& [name, info] : entries_) out.push_back(name);
  return out;
}

const SafetensorsInfo& SafetensorsFile::info(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) refuse(path_, fmt::format("there is no tensor '{}'", name));
  return found->second;
}

void SafetensorsFile::read(const std::string& name, std::span<std::byte> into) const {
  DS_CHECK(narrow<int64_t>(into.size()) == info(name).bytes,
           "safetensors: '{}' has {} bytes, the destination {}", name, info(name).bytes,
           into.size());
  read_part(name, 0, into);
}

void SafetensorsFile::read_part(const std::string& name, int64_t offset,
                                std::span<std::byte> into) const {
  const SafetensorsInfo& entry = info(name);
  DS_CHECK(offset >= 0 && offset + narrow<int64_t>(into.size()) <= entry.bytes,
           "safetensors: bytes [{}, {}) of '{}', which has {}", offset,
           offset + narrow<int64_t>(into.size()), name, entry.bytes);
  file_->read(entry.offset + offset, into);
}

std::map<std::string, std::string> read_weight_map(FileSystem& file_system,
                                                   const std::string& path) {
  const rapidjson::Document index = parse_object(path, file_system.read_text(path, kLargestIndex));
  const rapidjson::Value* weight_map = member(index, "weight_map");
  if (weight_map == nullptr || !weight_map->IsObject()) refuse(path, "there is no weight_map");
  std::map<std::string, std::string> out;
  for (const auto& item : weight_map->GetObject()) {
    const std::string name = string_of(item.name);
    if (!item.value.IsString())
      refuse(path, fmt::format("the shard of '{}' is not a string", name));
    const std::string shard = string_of(item.value);
    const bool plain = !shard.empty() && shard[0] != '.' &&
                       shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) refuse(path, fmt::format("the shard of '{}' is not a plain file name", name));
    if (!out.emplace(name, shard).second) refuse(path, fmt::format("'{}' is listed twice", name));
  }
  return out;
}

SafetensorsFolder SafetensorsFolder::open(FileSystem& file_system, const std::string& path) {
  SafetensorsFolder out;
  out.path_ = path;
  const std::string single =
      path.ends_with(".safetensors") ? path : join_path(path, "model.safetensors");
  const std::string index = join_path(path, "model.safetensors.index.json");
  if (file_system.exists(single)) {
    out.files_.push_back(SafetensorsFile::open(file_system, single));
    for (const std::string& name : out.files_[0].names()) out.file_of_[name] = 0;
    return out;
  }
  if (!file_system.exists(index)) {
    const std::string advice = deepspeed_advice(file_system, path);
    if (!advice.empty()) throw Unsupported(advice);
    throw InputMissing(fmt::format(
        "{}: there are no weights: model.safetensors or pytorch_model.bin, or the index of several "
        "files (model.safetensors.index.json, pytorch_model.bin.index.json)",
        path));
  }
  std::map<std::string, size_t> opened;
  for (const auto& [name, shard] : read_weight_map(file_system, index)) {
    if (!opened.contains(shard)) {
      opened[shard] = out.files_.size();
      out.files_.push_back(SafetensorsFile::open(file_system, join_path(path, shard)));
    }
    const size_t file = opened[shard];
    if (!out.files_[file].contains(name)) {
      refuse(index, fmt::format("'{}' should be in {}, which does not have it", name, shard));
    }
    out.file_of_[name] = file;
  }
  return out;
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> out;
  for (const auto& [name, file] : file_of_) out.push_back(name);
  return out;
}

const SafetensorsFile& SafetensorsFolder::file(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) refuse(path_, fmt::format("there is no tensor '{}'", name));
  return files_[found->second];
}

namespace {

std::string_view stored_name(DType dtype) {
  for (const StoredType& type : kStoredTypes) {
    if (type.dtype == dtype) return type.name;
  }
  throw InternalError(fmt::format("safetensors: dtype {} has no stored name", name_of(dtype)));
}

int64_t bytes_of(const SafetensorsTensor& tensor) {
  return tensor.shape.numel() * static_cast<int64_t>(size_of(tensor.dtype));
}

std::string header_text(std::span<const SafetensorsTensor* const> order) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> json(buffer);
  json.StartObject();
  json.Key("__metadata__");
  json.StartObject();
  json.Key("format");
  json.String("pt");
  json.EndObject();
  int64_t offset = 0;
  for (const SafetensorsTensor* tensor : order) {
    json.Key(tensor->name.data(), static_cast<rapidjson::SizeType>(tensor->name.size()));
    json.StartObject();
    json.Key("dtype");
    json.String(stored_name(tensor->dtype).data());
    json.Key("shape");
    json.StartArray();
    for (const int64_t extent : tensor->shape.extents()) json.Int64(extent);
    json.EndArray();
    json.Key("data_offsets");
    json.StartArray();
    json.Int64(offset);
    offset += bytes_of(*tensor);
    json.Int64(offset);
    json.EndArray();
    json.EndObject();
  }
  json.EndObject();
  std::string text(buffer.GetString(), buffer.GetSize());
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(FileSystem& file_system, std::string path,
                                     std::span<const SafetensorsTensor> tensors)
    : file_system_(file_system), path_(std::move(path)), temporary_path_(path_ + ".tmp") {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const auto key = [](const SafetensorsTensor* t) {
      return std::tuple(-static_cast<int64_t>(size_of(t->dtype)), std::string_view(t->name));
    };
    return key(a) < key(b);
  });
  const std::string header = header_text(order);
  const auto data_begin = kLengthBytes + narrow<int64_t>(header.size());
  int64_t offset = data_begin;
  for (const SafetensorsTensor* tensor : order) {
    const int64_t bytes = bytes_of(*tensor);
    const bool added =
        slots_.emplace(tensor->name, Slot{offset, bytes, Slot::State::kMissing}).second;
    DS_CHECK(added && tensor->name != "__metadata__", "safetensors: two tensors named '{}'",
             tensor->name);
    offset += bytes;
  }
  std::string start;
  for (int shift = 0; shift < 64; shift += 8) {
    start.push_back(static_cast<char>(header.size() >> shift & 0xff));
  }
  start += header;
  file_ = create_anew(file_system_, temporary_path_);
  try {
    file_->allocate(offset);
    file_->write(0, std::as_bytes(std::span(start)));
  } catch (const IoError&) {
    file_.reset();
    file_system_.remove(temporary_path_);  // the destructor does not run for a failed constructor
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  try {
    file_system_.remove(temporary_path_);
  } catch (const std::exception&) {  // the failure that led here is the one to report
    return;
  }
}

void SafetensorsWriter::write(const std::string& name, std::span<const std::byte> data) {
  const auto found = slots_.find(name);
  DS_CHECK(found != slots_.end(), "safetensors: '{}' was not announced to the writer", name);
  Slot& slot = found->second;
  DS_CHECK(narrow<int64_t>(data.size()) == slot.bytes,
           "safetensors: '{}' has {} bytes, expected {}", name, data.size(), slot.bytes);
  DS_CHECK(slot.state == Slot::State::kMissing, "safetensors: '{}' is written twice", name);
  file_->write(slot.offset, data);
  slot.state = Slot::State::kWritten;
}

void SafetensorsWriter::finish() {
  for (const auto& [name, slot] : slots_) {
    DS_CHECK(slot.state == Slot::State::kWritten, "safetensors: '{}' was never written", name);
  }
  file_->sync();
  file_system_.rename(temporary_path_, path_);
  file_.reset();  // from here on there is nothing to remove
  file_system_.sync_directory(parent_directory(path_));
}

void write_safetensors(FileSystem& file_system, const std::string& path,
                       std::span<const SafetensorsTensor> tensors) {
  SafetensorsWriter writer(file_system, path, tensors);
  for (const SafetensorsTensor& tensor : tensors) writer.write(tensor.name, tensor.data);
  writer.finish();
}

}  // namespace ds
