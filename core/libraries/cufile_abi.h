// What cuFile's functions take and return. The CUDA Toolkit brings its header, cufile.h, only where
// GPUDirect Storage was chosen, so the few types that are needed stand here, as NVIDIA's "cuFile
// API Reference Guide" lays them out. Not to be included beside cufile.h, whose names these are.
#pragma once

#include <sys/types.h>

#include <cstddef>

extern "C" {

// A CUfileOpError, 0 where all is well, and the driver's CUresult where the error is the driver's;
// both are enumerations of C.
struct CUfileError_t {
  int err;
  int cu_err;
};

enum CUfileFileHandleType : int {
  CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
  CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2,
  CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3,
};

struct CUfileDescr_t {
  CUfileFileHandleType type;
  union {
    int fd;
    void* handle;
  } handle;
  const void* fs_ops;  // null: the file system of the kernel
};

using CUfileHandle_t = void*;

struct CUfileDrvProps_t {
  struct {
    unsigned int major_version;
    unsigned int minor_version;
    size_t poll_thresh_size;    // KiB
    size_t max_direct_io_size;  // KiB
    unsigned int dstatusflags;
    unsigned int dcontrolflags;
  } nvfs;
  unsigned int fflags;
  unsigned int max_device_cache_size;       // KiB
  unsigned int per_buffer_cache_size;       // KiB
  unsigned int max_device_pinned_mem_size;  // KiB
  unsigned int max_batch_io_size;
  unsigned int max_batch_io_timeout_msecs;
  // The library writes this struct. It has grown once, by max_batch_io_size, and may again.
  unsigned int reserved[16];
};

CUfileError_t cuFileDriverOpen();
// Counts who has opened the driver; the one without _v2 closes it for all.
CUfileError_t cuFileDriverClose_v2();
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties);
CUfileError_t cuFileGetVersion(int* version);
CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* descriptor);
void cuFileHandleDeregister(CUfileHandle_t handle);
CUfileError_t cuFileBufRegister(const void* base, size_t bytes, int flags);
CUfileError_t cuFileBufDeregister(const void* base);
// Bytes moved; -1 with errno, or less: minus a CUfileOpError.
ssize_t cuFileRead(CUfileHandle_t handle, void* base, size_t bytes, off_t file_offset,
                   off_t base_offset);
ssize_t cuFileWrite(CUfileHandle_t handle, const void* base, size_t bytes, off_t file_offset,
                    off_t base_offset);

}  // extern "C"
