#include "data/text/data_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/files/file.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string with_others(const std::string& first, int64_t others) {
  if (others == 0) return first;
  return fmt::format("{} (and {} other{})", first, others, others == 1 ? "" : "s");
}

// README.md, LICENSE and the like.
bool tells_about_its_folder(std::string_view path) {
  constexpr std::array<std::string_view, 9> kNames = {"readme",    "license", "licence",
                                                      "copying",   "notice",  "citation",
                                                      "changelog", "authors", "contributing"};
  std::string name(name_of(path));
  name.resize(std::min(name.size(), name.find('.')));
  std::ranges::transform(name, name.begin(), ascii_lower);
  return std::ranges::find(kNames, name) != kNames.end();
}

// That would leave out the others.
std::string pattern_for(const std::string& path) {
  const std::string_view name = name_of(path);
  const size_t dot = name.find('.');
  const std::string_view endings = dot == std::string_view::npos ? "" : name.substr(dot);
  const std::string pattern =
      endings.empty() ? fmt::format("{}*", name.substr(0, 1)) : fmt::format("*{}", endings);
  return path.size() == name.size() ? pattern : join_path(parent_directory(path), pattern);
}

}  // namespace

bool is_looked_into(size_t file, size_t files) {
  if (files <= kMostLookedInto || file == 0) return true;
  // The steps of i * (kMostLookedInto - 1) / (files - 1), so that the last file is one of them.
  const auto step = [&](size_t i) { return i * (kMostLookedInto - 1) / (files - 1); };
  return step(file) != step(file - 1);
}

bool is_about_data(std::string_view path) {
  constexpr std::array<std::string_view, 4> kNames = {"dataset_infos.json", "dataset_info.json",
                                                      "dataset_dict.json", "state.json"};
  return std::ranges::find(kNames, name_of(path)) != kNames.end();
}

void DataNotes::add_text(const std::string& path, std::string_view head) {
  for (TextFinding& finding : findings_of(path, head)) {
    const auto [found, is_new] =
        signs_.try_emplace(finding.sign, Found{path, std::move(finding.reason)});
    if (!is_new) ++found->second.others;
  }
}

void DataNotes::add_files(std::span<const NamedFile> files) {
  const auto data =
      std::ranges::find_if(files, [](const NamedFile& file) { return file.form != Form::kText; });
  if (data != files.end()) {
    const auto is_text = [](const NamedFile& file) { return file.form == Form::kText; };
    const auto text = std::ranges::find_if(files, is_text);
    if (text == files.end()) return;
    among_others_.push_back(fmt::format(
        "{} is text beside {} ({}), and is read, too; to leave it out, name a pattern such as {}",
        with_others(text->path, std::ranges::count_if(files, is_text) - 1),
        data->form == Form::kJsonLines ? "JSON lines" : "token ids", data->path,
        pattern_for(data->path)));
    return;
  }
  const auto tells = [](const NamedFile& file) { return tells_about_its_folder(file.path); };
  const auto first = std::ranges::find_if(files, tells);
  if (first == files.end()) return;
  const auto other = std::ranges::find_if(files, [&](const NamedFile& file) {
    return !tells(file) && ending_of(file.path) != ending_of(first->path);
  });
  if (other == files.end()) return;
  among_others_.push_back(fmt::format(
      "{} is read as a text like the others, though its name says that it is about them; to leave "
      "it out, name a pattern such as {}",
      with_others(first->path, std::ranges::count_if(files, tells) - 1), pattern_for(other->path)));
}

std::vector<std::string> DataNotes::texts() const {
  std::vector<std::string> out;
  for (const auto& [sign, found] : signs_) {
    out.push_back(fmt::format("{} {}; it is read as text, as it stands; {}",
                              with_others(found.first, found.others), found.reason,
                              advice_for(sign)));
  }
  out.insert(out.end(), among_others_.begin(), among_others_.end());
  return out;
}

}  // namespace ds
