// A decorator that makes one chosen call of a file system fail, so that a test can try every call
// in turn: count the mutating calls of a run without faults, then repeat it once per call and kind
// of fault. After kCrash no later call does anything: the caller is as good as dead.
#pragma once

#include <atomic>
#include <mutex>

#include "core/files/file.h"

namespace ds {

enum class Fault {
  kNone,
  kIoError,     // the call throws EIO and has no effect
  kDiskFull,    // the call throws ENOSPC and has no effect
  kShortWrite,  // a write stores its first half, then throws ENOSPC; other calls as kDiskFull
  kCrash,       // a write stores its first half; this call and all later ones throw SimulatedCrash
};

// Not an Error of ours on purpose: code that cleans up after an IoError must not mistake it for
// one.
class SimulatedCrash : public std::runtime_error {
 public:
  explicit SimulatedCrash(const std::string& m) : std::runtime_error(m) {}
};

// Thread-safe. Mutating calls (create, write, allocate, sync, rename, make_directory,
// sync_directory, remove) are counted from 0; reading calls pass through, except after a crash.
class FaultFileSystem : public FileSystem {
 public:
  explicit FaultFileSystem(FileSystem& inner) : inner_(inner) {}

  void fail_call(int64_t index, Fault fault);
  int64_t call_count() const { return calls_; }
  std::vector<std::string> calls() const;        // "<operation> <path>" of each counted call
  int64_t read_count() const { return reads_; }  // of files, not of directories

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

  // Counts one mutating call; throws if it is the chosen one. kShortWrite is returned, not thrown,
  // for operation "write", and so is kCrash: the caller stores half and then calls fail().
  Fault enter(std::string_view operation, const std::string& path);
  [[noreturn]] void fail(std::string_view operation, const std::string& path, Fault fault) const;
  void check_alive() const;  // SimulatedCrash after a crash
  void enter_read();

 private:
  FileSystem& inner_;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> reads_ = 0;
  std::atomic<int64_t> failing_call_ = -1;
  std::atomic<Fault> fault_ = Fault::kNone;
  std::atomic<bool> crashed_ = false;
  mutable std::mutex log_mutex_;
  std::vector<std::string> log_;
};

}  // namespace ds
