// What is noted of the files of one key of the configuration (pure): texts that look like something
// else, and texts among files that are none. Each thing is said once, with the file that was met
// first and the number of others, however many files there are.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/text_signs.h"

namespace ds {

// Looked into for signs, of the files of one entry: all of a few, of many this number, evenly
// spread with the first and the last among them.
inline constexpr size_t kMostLookedInto = 256;
bool is_looked_into(size_t file, size_t files);

// Whether the name is that of a file beside data that tells about them, as `datasets` writes it:
// dataset_infos.json and the like.
bool is_about_data(std::string_view path);

class DataNotes {
 public:
  // A text of which `head` is the beginning.
  void add_text(const std::string& path, std::string_view head);

  enum class Form { kText, kJsonLines, kTokens };
  struct NamedFile {
    std::string path;
    Form form;
  };
  // Those that a folder or a pattern stands for.
  void add_files(std::span<const NamedFile> files);

  // In the order of what they are about.
  std::vector<std::string> texts() const;

 private:
  struct Found {
    std::string first, reason;
    int64_t others = 0;
  };
  std::map<TextSign, Found> signs_;
  std::vector<std::string> among_others_;
};

}  // namespace ds
