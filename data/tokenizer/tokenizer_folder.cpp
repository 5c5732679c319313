// The tokenizer that a folder brings: in which form, and which files are part of it.
#include <algorithm>
#include <array>

#include "core/files/hub_name.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {
namespace {

// What lies beside a tokenizer and speaks of it.
constexpr std::array kBeside{"tokenizer_config.json", "special_tokens_map.json",
                             "added_tokens.json", "chat_template.jinja", "chat_template.json"};
constexpr const char* kTemplates = "additional_chat_templates";

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_folder(FileSystem& file_system, const std::string& path) {
  try {
    file_system.list(path);
    return true;
  } catch (const Error&) {  // whoever opens it says what it is
    return false;
  }
}

}  // namespace

std::string find_tokenizer(FileSystem& file_system, const std::string& name_or_path) {
  if (name_or_path == "byte") return name_or_path;
  if (auto inside = tokenizer_file_in(file_system, name_or_path)) return *inside;
  if (is_folder(file_system, name_or_path)) {
    throw InputMissing(
        fmt::format("{}: the folder holds no tokenizer ({}); name another one: such a file, a "
                    "folder with one, or \"byte\"",
                    name_or_path, kTokenizerFiles));
  }
  if (!file_system.exists(name_or_path)) {
    throw InputMissing(fmt::format("{}: there is no such file or folder; {}", name_or_path,
                                   hub_advice(file_system, name_or_path, "tokenizer")));
  }
  return name_or_path;
}

void check_vocabulary(const Tokenizer& tokenizer, const std::string& name, int64_t vocabulary) {
  if (tokenizer.vocab_size() <= vocabulary) return;
  throw ConfigError(fmt::format(
      "data.tokenizer: {} has {} tokens, but the model's vocab_size is {}; they do not belong "
      "together",
      name, tokenizer.vocab_size(), vocabulary));
}

std::map<std::string, std::string> tokenizer_files(FileSystem& file_system,
                                                   const std::string& name_or_path) {
  std::map<std::string, std::string> files;
  if (name_or_path == "byte") return files;
  const auto add = [&](const std::string& name, const std::string& path) {
    if (file_system.exists(path)) files.emplace(name, path);
  };
  const bool folder = is_folder(file_system, name_or_path);
  const std::string place = folder ? name_or_path : parent_directory(name_or_path);
  const auto add_beside = [&] {
    for (const char* const name : kBeside) add(name, join_path(place, name));
  };
  // Beside a file that was named may lie those of other tokenizers, which would be taken for it.
  if (!folder && stands_alone(name_or_path)) {
    add(tokenizer_file_name(name_or_path), name_or_path);
    add_beside();
    return files;
  }
  if (!folder && tokenizer_file_name(name_or_path) != name_in(name_or_path)) {
    add("tokenizer.json", name_or_path);
    for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json"})
      add(name, join_path(place, name));
    return files;
  }
  add_beside();
  for (const std::string& name : tokenizer_file_names()) add(name, join_path(place, name));
  add("merges.txt", join_path(place, "merges.txt"));
  const std::string templates = join_path(place, kTemplates);
  if (!is_folder(file_system, templates)) return files;
  for (const DirectoryEntry& entry : file_system.list(templates)) {
    if (!entry.name.ends_with(".jinja")) continue;
    add(fmt::format("{}/{}", kTemplates, entry.name), join_path(templates, entry.name));
  }
  return files;
}

}  // namespace ds
