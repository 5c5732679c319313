// A file system in memory that knows what a power failure may leave behind. Every file has durable
// bytes (those of its last sync) and live ones; every directory has durable and live entries. It
// assumes no more than POSIX promises: syncing a file does not make its name durable, renames are
// atomic but may be lost or reordered between syncs of their directories.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "core/files/file.h"

namespace ds {

enum class CrashModel {
  kKeepAll,   // the process died, the machine did not: everything written is there
  kKeepNone,  // power was lost: only what was synced is there
  kTorn,  // power was lost: each unsynced 512-byte sector, size change and rename is there or not,
          // drawn from the seed
};
inline constexpr int64_t kSectorBytes = 512;

class MemoryFileSystem : public FileSystem {
 public:
  explicit MemoryFileSystem(int64_t capacity_bytes = int64_t{1} << 40);
  ~MemoryFileSystem() override;

  // The state that a machine finds after a crash now. Open files of this file system stay usable.
  std::unique_ptr<MemoryFileSystem> after_crash(CrashModel model, uint64_t seed) const;
  // Flips one bit of a file's live and durable content.
  void flip_bit(const std::string& path, int64_t bit);
  void truncate(const std::string& path, int64_t bytes);
  // Writes that would exceed the capacity fill it and then throw DiskFull.
  void set_capacity(int64_t bytes);
  int64_t used_bytes() const;

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

  struct Node;   // a file or directory
  struct Store;  // all nodes, behind one mutex; shared with open files

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace ds
