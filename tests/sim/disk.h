// The disk as one simulated process sees it: every call that changes something takes time, during
// which others run and the process may die; calls may fail; and, for mutants, calls may be left
// out.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/mutant.h"
#include "tests/support/files/memory_file_system.h"

namespace ds::sim {

// The shared disk; survives processes. Power loss replaces its content.
struct SharedDisk {
  std::unique_ptr<MemoryFileSystem> files = std::make_unique<MemoryFileSystem>();
  MutantSet mutants;
  // Called after a tag directory got its name: with the epoch of the directory it had been.
  std::function<void(const std::string& tag, int64_t epoch)> tag_named;
  // Called after a file was made, with who made it.
  std::function<void(const std::string& path, int owner)> created;
};

class ProcessDisk final : public FileSystem {
 public:
  // `spend` lets the time of a call pass; it throws Killed, or IoError for an injected fault.
  ProcessDisk(SharedDisk& disk, int owner, std::function<void(const std::string& operation)> spend)
      : disk_(disk), owner_(owner), spend_(std::move(spend)) {}

  using FileSystem::create;
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Caching caching) override;
  std::unique_ptr<File> create(const std::string& path, Caching caching) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void remove(const std::string& path) override;
  std::vector<DirectoryEntry> list(const std::string& path) const override;
  bool exists(const std::string& path) const override;
  int64_t free_bytes(const std::string& path) const override;

  void spend(const std::string& operation) const { spend_(operation); }
  bool mutant(Mutant which) const { return disk_.mutants.has(which); }

 private:
  SharedDisk& disk_;
  const int owner_;  // which launch
  const std::function<void(const std::string&)> spend_;
};

}  // namespace ds::sim
