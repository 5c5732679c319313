#include "tests/support/files/fault_file_system.h"

#include <cerrno>

namespace ds {
namespace {

class FaultFile final : public File {
 public:
  FaultFile(FaultFileSystem& faults, std::unique_ptr<File> inner)
      : File(inner->path()), faults_(faults), inner_(std::move(inner)) {}

  int64_t size() const override {
    faults_.check_alive();
    return inner_->size();
  }
  void read(int64_t offset, std::span<std::byte> into) const override {
    faults_.enter_read();
    inner_->read(offset, into);
  }
  bool is_cached() const override { return inner_->is_cached(); }
  void write(int64_t offset, std::span<const std::byte> from) override {
    const Fault fault = faults_.enter("write", path());
    if (fault == Fault::kNone) {
      inner_->write(offset, from);
      return;
    }
    inner_->write(offset, from.first(from.size() / 2));
    faults_.fail("write", path(), fault);
  }
  void allocate(int64_t bytes) override {
    faults_.enter("allocate", path());
    inner_->allocate(bytes);
  }
  void sync() override {
    faults_.enter("sync", path());
    inner_->sync();
  }

 private:
  FaultFileSystem& faults_;
  std::unique_ptr<File> inner_;
};

}  // namespace

void FaultFileSystem::fail_call(int64_t index, Fault fault) {
  failing_call_ = index;
  fault_ = fault;
}

std::vector<std::string> FaultFileSystem::calls() const {
  const std::scoped_lock lock(log_mutex_);
  return log_;
}

void FaultFileSystem::enter_read() {
  check_alive();
  ++reads_;
}

void FaultFileSystem::check_alive() const {
  if (crashed_) throw SimulatedCrash("file system used after a simulated crash");
}

void FaultFileSystem::fail(std::string_view operation, const std::string& path, Fault fault) const {
  if (fault == Fault::kCrash) {
    throw SimulatedCrash(fmt::format("simulated crash in {} {}", operation, path));
  }
  throw_io_error(operation, path, fault == Fault::kIoError ? EIO : ENOSPC);
}

Fault FaultFileSystem::enter(std::string_view operation, const std::string& path) {
  check_alive();
  {
    const std::scoped_lock lock(log_mutex_);
    log_.push_back(fmt::format("{} {}", operation, path));
  }
  if (calls_++ != failing_call_) return Fault::kNone;
  const Fault fault = fault_;
  if (fault == Fault::kNone) return fault;
  if (fault == Fault::kCrash) crashed_ = true;
  const bool half_stored =
      operation == "write" && (fault == Fault::kShortWrite || fault == Fault::kCrash);
  if (!half_stored) fail(operation, path, fault);
  return fault;
}

std::unique_ptr<File> FaultFileSystem::open(const std::string& path, Caching caching) {
  check_alive();
  return std::make_unique<FaultFile>(*this, inner_.open(path, caching));
}

std::unique_ptr<File> FaultFileSystem::create(const std::string& path, Caching caching) {
  enter("create", path);
  return std::make_unique<FaultFile>(*this, inner_.create(path, caching));
}

void FaultFileSystem::rename(const std::string& from, const std::string& to) {
  enter("rename", fmt::format("{} to {}", from, to));
  inner_.rename(from, to);
}

void FaultFileSystem::make_directory(const std::string& path) {
  enter("make_directory", path);
  inner_.make_directory(path);
}

void FaultFileSystem::sync_directory(const std::string& path) {
  enter("sync_directory", path);
  inner_.sync_directory(path);
}

void FaultFileSystem::remove(const std::string& path) {
  enter("remove", path);
  inner_.remove(path);
}

std::vector<DirectoryEntry> FaultFileSystem::list(const std::string& path) const {
  check_alive();
  return inner_.list(path);
}

bool FaultFileSystem::exists(const std::string& path) const {
  check_alive();
  return inner_.exists(path);
}

int64_t FaultFileSystem::free_bytes(const std::string& path) const {
  check_alive();
  return inner_.free_bytes(path);
}

}  // namespace ds
