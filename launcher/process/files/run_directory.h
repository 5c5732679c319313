// The directory of one run: where it lies and how its files are written. docs/run-directory.md
// lists what is in it; that list is a stable interface.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

// Appends to a plain file, every write checked. What could not be written stays, and goes first
// when the next comes: a full disk makes the file late, not wrong. Throws IoError naming the file.
class AppendFile {
 public:
  explicit AppendFile(const std::filesystem::path& path);
  void add(std::string_view text) { rest_ += text; }  // to be written by flush()
  void flush();
  int fd() const { return fd_.get(); }

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::string rest_;
};

// Readers see the old file or the new one, whole; a kill leaves no third. Not synced: what a crash
// of the machine must not lose is the checkpoint's business. Throws IoError.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

// The newest runs/<stem>-<time> below `here` that holds a checkpoint.
std::optional<std::filesystem::path> newest_resumable_run(const std::filesystem::path& here,
                                                          std::string_view stem);

// Returns the size of the newest checkpoint in a run directory; 0 if there is none.
int64_t newest_checkpoint_bytes(const std::filesystem::path& run_directory);

// The path with the run that runs/latest means now in the place of that link, which a run moves to
// itself once it trains.
std::filesystem::path without_latest(const std::filesystem::path& path);

// A run among DeepSpeed's checkpoints would go unseen, and would not go on from them: Unsupported
// where the path is such a folder.
void refuse_deepspeed_folder(const std::filesystem::path& path);

class RunDirectory {
 public:
  // With `wanted`: that directory (below `here` if relative), made where it is missing. Else
  // runs/<stem>-<local_time> below `here` (a number appended until it is new). Makes logs/ in it
  // and proves that it can be written. Throws IoError.
  static RunDirectory open(const std::optional<std::filesystem::path>& wanted,
                           const std::filesystem::path& here, std::string_view stem,
                           std::string_view local_time);

  // It has trained a step: runs/latest below `here` is this one now, wherever it lies. A
  // convenience, which may fail.
  void become_latest() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }
  std::filesystem::path rank_log(int rank) const;
  // For people: relative to where they stand, where that is shorter.
  std::string shown(const std::filesystem::path& path) const;

 private:
  RunDirectory(std::filesystem::path path, std::filesystem::path here)
      : path_(std::move(path)), here_(std::move(here)) {}
  std::filesystem::path path_;
  std::filesystem::path here_;
};

}  // namespace ds
