#include "tests/sim/disk.h"

#include <charconv>

namespace ds::sim {
namespace {

class ProcessFile final : public File {
 public:
  ProcessFile(const ProcessDisk& disk, std::unique_ptr<File> inner)
      : File(inner->path()), disk_(disk), inner_(std::move(inner)) {}
  ~ProcessFile() override = default;

  int64_t size() const override { return inner_->size(); }
  void read(int64_t offset, std::span<std::byte> into) const override {
    inner_->read(offset, into);
  }
  bool is_cached() const override { return true; }
  void write(int64_t offset, std::span<const std::byte> from) override {
    // In two halves, so that a process may die between them.
    const size_t half = from.size() / 2;
    disk_.spend("write");
    inner_->write(offset, from.first(half));
    disk_.spend("write");
    const bool torn = disk_.mutant(Mutant::kTornWrite) && !path().ends_with(".tmp");
    const std::vector<std::byte> nothing(torn ? from.size() - half : 0);
    inner_->write(offset + static_cast<int64_t>(half),
                  torn ? std::span<const std::byte>(nothing) : from.subspan(half));
  }
  void allocate(int64_t bytes) override { inner_->allocate(bytes); }
  void sync() override {
    disk_.spend("sync");
    const bool text = path().ends_with(".tmp");
    const bool skipped = disk_.mutant(Mutant::kLateSync) ||
                         disk_.mutant(text ? Mutant::kSkipTextSync : Mutant::kSkipFileSync);
    if (!skipped) inner_->sync();
  }

 private:
  const ProcessDisk& disk_;
  const std::unique_ptr<File> inner_;
};

// "<root>/<tag>.tmp.<epoch>" taken apart.
bool is_temporary(const std::string& path, std::string& tag, int64_t& epoch) {
  constexpr std::string_view kMark = ".tmp.";
  const size_t slash = path.rfind('/') + 1;
  const size_t at = path.rfind(kMark);
  if (at == std::string::npos || at < slash) return false;
  tag = path.substr(slash, at - slash);
  const char* const end = path.data() + path.size();
  return std::from_chars(path.data() + at + kMark.size(), end, epoch).ptr == end;
}

}  // namespace

std::unique_ptr<File> ProcessDisk::open(const std::string& path, Caching caching) {
  return disk_.files->open(path, caching);
}

std::unique_ptr<File> ProcessDisk::create(const std::string& path, Caching caching) {
  spend_("create");
  auto file = std::make_unique<ProcessFile>(*this, disk_.files->create(path, caching));
  if (disk_.created) disk_.created(path, owner_);
  return file;
}

void ProcessDisk::rename(const std::string& from, const std::string& to) {
  spend_("rename");
  disk_.files->rename(from, to);
  if (mutant(Mutant::kLateSync) && !to.ends_with("epoch")) {
    spend_("sync");
    if (disk_.files->exists(to) && from.ends_with(".tmp")) disk_.files->open(to)->sync();
  }
  std::string tag;
  int64_t epoch = 0;
  if (is_temporary(from, tag, epoch) && to.ends_with("/" + tag)) disk_.tag_named(tag, epoch);
}

void ProcessDisk::make_directory(const std::string& path) {
  spend_("make_directory");
  disk_.files->make_directory(path);
}

void ProcessDisk::sync_directory(const std::string& path) {
  spend_("sync_directory");
  const bool root = path == "/run/checkpoints";
  if (!mutant(Mutant::kSkipDirectorySync) && !(root && mutant(Mutant::kSkipRootSync))) {
    disk_.files->sync_directory(path);
  }
}

void ProcessDisk::remove(const std::string& path) {
  spend_("remove");
  disk_.files->remove(path);
}

std::vector<DirectoryEntry> ProcessDisk::list(const std::string& path) const {
  return disk_.files->list(path);
}

bool ProcessDisk::exists(const std::string& path) const {
  if (mutant(Mutant::kNoFence) && path.ends_with("/epoch")) return false;
  return disk_.files->exists(path);
}

int64_t ProcessDisk::free_bytes(const std::string& path) const {
  return disk_.files->free_bytes(path);
}

}  // namespace ds::sim
