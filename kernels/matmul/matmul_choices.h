// MatmulChoices: which of a library's algorithms was the quickest for products of a shape, kept
// from run to run in a small file. The file is of one model of GPU and one version of the library,
// since algorithms of another are no algorithms here. What is not such a file, whole and of this
// format, is passed over and written anew: a choice that is lost costs some milliseconds. Knows
// nothing of what an algorithm is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds::kernels {

// Whose algorithms they are.
struct MatmulPlace {
  std::string gpu;      // "NVIDIA H200"
  std::string library;  // "cuBLASLt 130200"
};

class MatmulChoices {
 public:
  using Algorithm = std::array<uint64_t, 8>;                    // the library's own
  using Table = std::map<std::string, Algorithm, std::less<>>;  // by shape: numbers and commas

  // Reads the file, where there is one; without a path choices last as long as this. The file
  // system outlives it.
  MatmulChoices(FileSystem& files, std::string path, MatmulPlace place);

  std::optional<Algorithm> find(std::string_view shape) const;
  // Keeps it, also in the file, and returns what counts from now on: where another process has kept
  // one for this shape meanwhile, that one, so that ranks of a host compute alike.
  Algorithm keep(const std::string& shape, const Algorithm& algorithm);

  const std::string& path() const { return path_; }
  // Why the file was passed over or could not be written; empty: nothing was wrong.
  const std::string& problem() const { return problem_; }
  size_t size() const { return table_.size(); }

 private:
  void read();
  void write();

  FileSystem& files_;
  const std::string path_;
  const MatmulPlace place_;
  Table table_;
  std::string problem_;
};

// The file's text (pure).
std::string choices_text(const MatmulPlace& place, const MatmulChoices::Table& table);
// What it says. DataError, in words that follow its name, where it is none of this place.
MatmulChoices::Table parse_choices(std::string_view text, const MatmulPlace& place);
// The name of a place's file, of letters that every file system has.
std::string choices_file_name(const MatmulPlace& place);

}  // namespace ds::kernels
