#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "core/libraries/cufile.h"
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"
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

// The descriptors that cuFile was told of. It takes each once in a process, whoever tells it, so
// what engines and threads use at the same time is counted here.
class OpenFiles {
 public:
  // Null: it refuses the file. Else it is given back once.
  CUfileHandle_t take(const Cufile& library, int fd) {
    const std::scoped_lock lock(files_mutex_);
    Open& file = files_[fd];
    if (file.users == 0) {
      CUfileDescr_t description{};
      description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
      description.handle.fd = fd;
      if (library.cuFileHandleRegister(&file.handle, &description).err != 0) {
        files_.erase(fd);
        return nullptr;
      }
    }
    ++file.users;
    return file.handle;
  }
  void give_back(const Cufile& library, int fd) {
    const std::scoped_lock lock(files_mutex_);
    const auto found = files_.find(fd);
    if (--found->second.users > 0) return;
    library.cuFileHandleDeregister(found->second.handle);
    files_.erase(found);
  }

 private:
  struct Open {
    CUfileHandle_t handle = nullptr;
    int users = 0;
  };
  std::mutex files_mutex_;
  std::map<int, Open> files_;
};

// The process's, as cuFile's own table is.
OpenFiles& open_files() {
  static OpenFiles files;
  return files;
}

int64_t move_by(const Cufile& library, CUfileHandle_t handle, const IoBlock& block) {
  const auto bytes = static_cast<size_t>(block.bytes);
  errno = 0;
  const ssize_t moved = block.kind == IoKind::kRead
                            ? library.cuFileRead(handle, block.memory, bytes, block.offset, 0)
                            : library.cuFileWrite(handle, block.memory, bytes, block.offset, 0);
  if (moved >= 0) return moved;
  return moved == -1 && errno != 0 ? -errno : -EIO;  // errors of its own have numbers of its own
}

const Cufile& checked(const Cufile& library, const std::string& modules) {
  if (::access(modules.c_str(), R_OK) == 0) return library;
  throw Unsupported(fmt::format(
      "cuFile: this kernel has no loadable modules ({}), among which cuFile looks for its driver",
      modules));
}

class GdsEngine final : public IoEngine {
 public:
  GdsEngine(int queue_depth, int threads, const std::string& modules)
      : library_(checked(cufile(), modules)),
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

  // It stays registered between blocks.
  bool register_file(int fd) override { return open_files().take(library_, fd) != nullptr; }
  void unregister_file(int fd) override { open_files().give_back(library_, fd); }
  bool register_memory(std::span<std::byte> memory) override {
    return library_.cuFileBufRegister(memory.data(), memory.size(), 0).err == 0;
  }
  void unregister_memory(std::span<std::byte> memory) override {
    library_.cuFileBufDeregister(memory.data());
  }

 private:
  int64_t move(const IoBlock& block) {
    const CUfileHandle_t handle = open_files().take(library_, block.fd);
    if (handle == nullptr) return -ENOTSUP;
    const int64_t moved = move_by(library_, handle, block);
    open_files().give_back(library_, block.fd);
    return moved;
  }

  const Cufile& library_;
  const OpenDriver driver_;
  TransferPool pool_;  // last: its threads use the others
};

}  // namespace

std::unique_ptr<IoEngine> make_gds_engine(int queue_depth, int threads,
                                          const std::string& modules) {
  return std::make_unique<GdsEngine>(queue_depth, threads, modules);
}

}  // namespace ds
