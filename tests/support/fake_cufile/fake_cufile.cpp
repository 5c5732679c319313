// libcufile.so.0 for machines without NVIDIA's: its compatibility mode, where bytes pass through
// the host, for memory of the host. As strict as the real one (1.20) was found to be: the driver
// has to be open, a file to be open past the page cache and to be registered once, whoever does it,
// and memory to be registered once.
#include <fcntl.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>

#include "core/libraries/cufile_abi.h"

namespace {

constexpr int kInvalidFile = 5027;
constexpr int kFileIsRegistered = 5028;
constexpr int kMemoryIsRegistered = 5009;
constexpr int kDriverIsClosed = 5001;

struct State {
  std::mutex state_mutex;
  int opened = 0;
  std::set<int> files;
  std::set<const void*> memory;
};

State& state() {
  static State all;
  return all;
}

// The file once more, through the page cache: any offset, length and address will do.
struct Handle {
  int fd = -1;
  int cached_fd = -1;
};

}  // namespace

extern "C" {

CUfileError_t cuFileDriverOpen() {
  const std::scoped_lock lock(state().state_mutex);
  ++state().opened;
  return {0, 0};
}

CUfileError_t cuFileDriverClose_v2() {
  const std::scoped_lock lock(state().state_mutex);
  --state().opened;
  return {0, 0};
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties) {
  *properties = {};
  return {0, 0};
}

CUfileError_t cuFileGetVersion(int* version) {
  *version = 1200;
  return {0, 0};
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* descriptor) {
  const std::scoped_lock lock(state().state_mutex);
  const int fd = descriptor->handle.fd;
  if (state().opened == 0) return {kDriverIsClosed, 0};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return {kInvalidFile, 0};
  if (!state().files.insert(fd).second) return {kFileIsRegistered, 0};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  *handle = new Handle{fd, ::open(path.c_str(), (flags & O_ACCMODE) | O_CLOEXEC)};
  return {0, 0};
}

void cuFileHandleDeregister(CUfileHandle_t handle) {
  const std::scoped_lock lock(state().state_mutex);
  const auto* file = static_cast<Handle*>(handle);
  state().files.erase(file->fd);
  ::close(file->cached_fd);
  delete file;
}

CUfileError_t cuFileBufRegister(const void* base, size_t, int) {
  const std::scoped_lock lock(state().state_mutex);
  return {state().memory.insert(base).second ? 0 : kMemoryIsRegistered, 0};
}

CUfileError_t cuFileBufDeregister(const void* base) {
  const std::scoped_lock lock(state().state_mutex);
  state().memory.erase(base);
  return {0, 0};
}

ssize_t cuFileRead(CUfileHandle_t handle, void* base, size_t bytes, off_t file_offset,
                   off_t base_offset) {
  return ::pread(static_cast<Handle*>(handle)->cached_fd, static_cast<char*>(base) + base_offset,
                 bytes, file_offset);
}

ssize_t cuFileWrite(CUfileHandle_t handle, const void* base, size_t bytes, off_t file_offset,
                    off_t base_offset) {
  return ::pwrite(static_cast<Handle*>(handle)->cached_fd,
                  static_cast<const char*>(base) + base_offset, bytes, file_offset);
}

}  // extern "C"
