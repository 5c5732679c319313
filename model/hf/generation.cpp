#include "model/hf/generation.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <limits>

namespace ds {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 24;
constexpr const char* kKey = "eos_token_id";

int32_t id_of(const rapidjson::Value& value, const std::string& path) {
  if (!value.IsInt() || value.GetInt() < 0) {
    throw DataError(
        fmt::format("{}: \"{}\" is no token id: expected a number from 0, a list of them, or null",
                    path, kKey));
  }
  return value.GetInt();
}

std::optional<std::vector<int32_t>> ids_of(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) return std::nullopt;
  const std::string text = files.read_text(path, kLargestFile);
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag>(text.data(),
                                                                                  text.size());
  if (document.HasParseError() || !document.IsObject()) {
    throw DataError(fmt::format("{}: no JSON object: {} at byte {}", path,
                                rapidjson::GetParseError_En(document.GetParseError()),
                                document.GetErrorOffset()));
  }
  const auto found = document.FindMember(kKey);
  if (found == document.MemberEnd() || found->value.IsNull()) return std::nullopt;
  std::vector<int32_t> ids;
  if (found->value.IsArray()) {
    for (const rapidjson::Value& item : found->value.GetArray()) ids.push_back(id_of(item, path));
  } else {
    ids.push_back(id_of(found->value, path));
  }
  return ids;
}

}  // namespace

std::optional<std::vector<int32_t>> read_eos_ids(FileSystem& files, const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (auto ids = ids_of(files, join_path(folder, name))) return ids;
  }
  return std::nullopt;
}

}  // namespace ds
