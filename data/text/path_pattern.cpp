#include "data/text/path_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>

namespace ds {
namespace {

constexpr int kDeepestFolder = 32;  // links may lead in circles

bool is_pattern(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

// The entries of a folder, or nothing where the path is none.
std::optional<std::vector<DirectoryEntry>> entries_of(const FileSystem& file_system,
                                                      const std::string& path) {
  try {
    if (file_system.exists(path)) return file_system.list(path);
  } catch (const InputMissing&) {  // a file, or one that cannot be read: whoever opens it says so
  } catch (const IoError&) {
  }
  return std::nullopt;
}

bool is_hidden(const std::string& name) {
  return name.starts_with('.') || name.starts_with('_') || name.ends_with(kUnfinished);
}

void add_folder(const FileSystem& file_system, const std::string& path, int depth,
                std::vector<std::string>& out) {
  if (depth > kDeepestFolder) {
    throw DataError(
        fmt::format("{}: folders are nested more than {} deep; a symbolic link among them may lead "
                    "in a circle",
                    path, kDeepestFolder));
  }
  for (const DirectoryEntry& entry : file_system.list(path)) {
    if (is_hidden(entry.name)) continue;
    const std::string inside = join_path(path, entry.name);
    const bool is_link = entry.kind == DirectoryEntry::Kind::kOther;
    if (entry.kind == DirectoryEntry::Kind::kDirectory ||
        (is_link && entries_of(file_system, inside))) {
      add_folder(file_system, inside, depth + 1, out);
    } else {
      out.push_back(inside);
    }
  }
}

// What matches `pattern` below `folder`, one component of the pattern after the other.
void add_matches(const FileSystem& file_system, const std::string& folder, std::string_view pattern,
                 std::vector<std::string>& out) {
  const size_t slash = pattern.find('/');
  const std::string component(pattern.substr(0, slash));
  const std::string_view rest = slash == std::string_view::npos ? "" : pattern.substr(slash + 1);
  const auto go_on = [&](const std::string& path) {
    if (slash == std::string_view::npos) {
      out.push_back(path);
    } else {
      add_matches(file_system, path, rest, out);
    }
  };
  if (component.empty()) return go_on(folder);
  const std::string base = folder.empty() ? "." : folder;
  const auto joined = [&](const std::string& name) {
    return folder.empty() ? name : join_path(folder, name);
  };
  if (!is_pattern(component)) {
    if (file_system.exists(joined(component))) go_on(joined(component));
    return;
  }
  const auto entries = entries_of(file_system, base);
  if (!entries) return;
  for (const DirectoryEntry& entry : *entries) {
    const bool wanted = !is_hidden(entry.name) || is_hidden(component);
    if (wanted && ::fnmatch(component.c_str(), entry.name.c_str(), FNM_PERIOD) == 0)
      go_on(joined(entry.name));
  }
}

// One of the two files of an indexed data set is enough to name it.
void drop_indexes(std::vector<std::string>& files) {
  std::vector<std::string> bins;
  for (const std::string& file : files) {
    if (file.ends_with(".bin")) bins.push_back(file);
  }
  std::sort(bins.begin(), bins.end());
  std::erase_if(files, [&](const std::string& file) {
    return file.ends_with(".idx") &&
           std::binary_search(bins.begin(), bins.end(), file.substr(0, file.size() - 4) + ".bin");
  });
}

std::vector<std::string> expand_one(const FileSystem& file_system, const std::string& path) {
  std::vector<std::string> found;
  if (!is_pattern(path) || file_system.exists(path)) {
    found.push_back(path);
  } else {
    if (path.find("**") != std::string::npos) {
      throw Unsupported(
          "data: a pattern with ** is not supported; name the folder, which is read with all below "
          "it");
    }
    const bool absolute = path.starts_with('/');
    add_matches(file_system, absolute ? "/" : "", std::string_view(path).substr(absolute ? 1 : 0),
                found);
    if (found.empty()) throw InputMissing(fmt::format("{}: the pattern matches no file", path));
    std::sort(found.begin(), found.end());
  }
  std::vector<std::string> out;
  bool searched = found.size() != 1 || found[0] != path;
  for (const std::string& one : found) {
    if (!entries_of(file_system, one)) {
      out.push_back(one);
      continue;
    }
    searched = true;
    const size_t before = out.size();
    add_folder(file_system, one, 0, out);
    if (out.size() == before) {
      throw DataError(fmt::format(
          "{}: the folder holds no file (names that begin with . or _ do not count)", one));
    }
  }
  if (searched) drop_indexes(out);
  return out;
}

}  // namespace

std::vector<std::string> expand_paths(const FileSystem& file_system,
                                      std::span<const std::string> paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    // The prefix of an indexed data set is no file itself, and may be a folder's name as well.
    const bool is_prefix = file_system.exists(path + ".bin") && file_system.exists(path + ".idx");
    const std::vector<std::string> files =
        is_prefix ? std::vector{path} : expand_one(file_system, path);
    out.insert(out.end(), files.begin(), files.end());
  }
  return out;
}

std::string called(const std::string& first, const std::string& last, size_t count) {
  return count == 1 ? first : fmt::format("{} to {} ({} files)", first, last, count);
}

}  // namespace ds
