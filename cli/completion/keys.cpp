#include "cli/completion/keys.h"

#include <map>

#include "config/catalogue.h"

namespace ds {
namespace {

std::vector<std::string> words_of(const CatalogueEntry& entry) {
  if (entry.type == "boolean") return {"false", "true"};
  return entry.enum_names;
}

// Names that a user chooses, elements of lists and older names are not proposed.
bool is_proposed(const CatalogueEntry& entry) {
  return entry.kind == EntryKind::kField && !entry.within_missing &&
         entry.path.find_first_of("<[") == std::string::npos;
}

}  // namespace

std::vector<CompletedKey> completed_keys() {
  std::map<std::string, std::vector<std::string>> keys;
  for (const CatalogueEntry& entry : catalogue()) {
    if (is_proposed(entry)) keys.emplace(entry.path, words_of(entry));
  }
  std::vector<CompletedKey> out;
  out.reserve(keys.size());
  for (auto& [path, values] : keys) out.push_back({path, std::move(values)});
  return out;
}

}  // namespace ds
