#include "model/hf/json_file.h"

#include <rapidjson/error/en.h>

#include "core/status/error.h"

namespace ds {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 24;

}  // namespace

rapidjson::Document json_in(FileSystem& files, const std::string& path) {
  rapidjson::Document document;
  if (!files.exists(path)) return document;
  const std::string text = files.read_text(path, kLargestFile);
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(text.data(),
                                                                                  text.size());
  if (document.HasParseError()) {
    throw DataError(fmt::format("{}: no JSON object: {} at byte {}", path,
                                rapidjson::GetParseError_En(document.GetParseError()),
                                document.GetErrorOffset()));
  }
  return document;
}

rapidjson::Document object_in(FileSystem& files, const std::string& path) {
  const bool is_there = files.exists(path);
  rapidjson::Document document = json_in(files, path);
  if (is_there && !document.IsObject()) {
    throw DataError(path + ": no JSON object, but another JSON value");
  }
  return document;
}

const rapidjson::Value* value_of(const rapidjson::Value& object, std::string_view key) {
  if (!object.IsObject()) return nullptr;
  const rapidjson::Value* found = nullptr;
  for (const auto& [name, value] : object.GetObject()) {
    if (key == std::string_view(name.GetString(), name.GetStringLength())) found = &value;
  }
  return found == nullptr || found->IsNull() ? nullptr : found;
}

}  // namespace ds
