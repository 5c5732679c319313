#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "core/error.h"
#include "core/libraries/cufile.h"
#include "core/libraries/gpu_libraries.h"
#include "offload/async_io/engines/transfer_pool.h"

namespace ds {

namespace {

// While it lives the driver is open in this process.
class OpenDriver {
 public:
  explicit OpenDriver(const Cufile& library) : library_(library) {
    const CUfileError_t error = library.cuFileDriverOpen();
    if (error.err != 0) {
      throw Unsupported(
          fmt::format("cuFile: cuFileDriverOpen: error {} (CUDA's: {}); it needs a GPU "
                      "with its driver, and /etc/cufile.json says what is allowed",
                      error.err, error.cu_err));
    }
    say_who_moves_bytes();
  }
  ~OpenDriver() { library_.cuFileDriverClose_v2(); }
  OpenDriver(const OpenDriver&) = delete;  // closes once
  OpenDriver& operator=(const OpenDriver&) = delete;

 private:
  void say_who_moves_bytes() const {
    CUfileDrvProps_t properties{};
    const CUfileError_t error = library_.cuFileDriverGetProperties(&properties);
    if (error.err == 0 && properties.nvfs.major_version != 0) {
      spdlog::info("cuFile: nvidia-fs {}.{} moves bytes between files and GPUs",
                   properties.nvfs.major_version, properties.nvfs.minor_version);
    } else {
      spdlog::warn(
          "cuFile: nvidia-fs is not loaded, so bytes pass through the host (compatibility "
          "mode)");
    }
  }

  const Cufile& library_;
};

// What cuFile was told of a file.
class FileHandle {
 public:
  FileHandle(const Cufile& library, int fd) : library_(library) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    if (library.cuFileHandleRegister(&handle_, &description).err != 0) handle_ = nullptr;
  }
  ~FileHandle() {
    if (handle_ != nullptr) library_.cuFileHandleDeregister(handle_);
  }
  FileHandle(const FileHandle&) = delete;  // deregisters once
  FileHandle& operator=(const FileHandle&) = delete;

  CUfileHandle_t get() const { return handle_; }  // null: it refuses the file

 private:
  const Cufile& library_;
  CUfileHandle_t handle_ = nullptr;
};

int64_t move_by(const Cufile& library, CUfileHandle_t handle, const IoBlock& block) {
  const auto bytes = static_cast<size_t>(block.bytes);
  errno = 0;
  const ssize_t moved = block.kind == IoKind::kRead
                            ? library.cuFileRead(handle, block.memory, bytes, block.offset, 0)
                            : library.cuFileWrite(handle, block.memory, bytes, block.offset, 0);
  if (moved >= 0) return moved;
  return moved == -1 && errno != 0 ? -errno : -EIO;  // errors of its own have numbers of its own
}

class GdsEngine final : public IoEngine {
 public:
  GdsEngine(int queue_depth, int threads)
      : library_(cufile()),
        driver_(library_),
        pool_("cuFile", queue_depth, threads,
              [this](const IoBlock& block) { return move(block); }) {}

  std::string_view name() const override { return pool_.name(); }
  int queue_depth() const override { return pool_.queue_depth(); }
  bool aligns_by_itself() const override { return true; }
  int submit(std::span<const IoBlock> blocks) override { return pool_.submit(blocks); }
  int reap(std::span<IoCompletion> into, int least, Deadline deadline) override {
    return pool_.reap(into, least, deadline);
  }

  bool register_file(int fd) override {
    auto handle = std::make_unique<FileHandle>(library_, fd);
    if (handle->get() == nullptr) return false;
    const std::scoped_lock lock(files_mutex_);
    return files_.emplace(fd, std::move(handle)).second;
  }
  void unregister_file(int fd) override {
    const std::scoped_lock lock(files_mutex_);
    files_.erase(fd);
  }
  bool register_memory(std::span<std::byte> memory) override {
    return library_.cuFileBufRegister(memory.data(), memory.size(), 0).err == 0;
  }
  void unregister_memory(std::span<std::byte> memory) override {
    library_.cuFileBufDeregister(memory.data());
  }

 private:
  int64_t move(const IoBlock& block) {
    if (const CUfileHandle_t handle = registered(block.fd)) {
      return move_by(library_, handle, block);
    }
    const FileHandle handle(library_, block.fd);
    return handle.get() == nullptr ? -ENOTSUP : move_by(library_, handle.get(), block);
  }

  CUfileHandle_t registered(int fd) {
    const std::scoped_lock lock(files_mutex_);
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : found->second->get();
  }

  const Cufile& library_;
  const OpenDriver driver_;
  std::mutex files_mutex_;
  std::map<int, std::unique_ptr<FileHandle>> files_;
  TransferPool pool_;  // last: its threads use the others
};

}  // namespace

std::unique_ptr<IoEngine> make_gds_engine(int queue_depth, int threads) {
  return std::make_unique<GdsEngine>(queue_depth, threads);
}

}  // namespace ds
