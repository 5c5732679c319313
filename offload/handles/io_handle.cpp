#include "offload/handles/io_handle.h"

#include <unistd.h>

#include <cerrno>

#include "core/files/file.h"
#include "core/values/index.h"

namespace ds {
namespace {

IoOptions io_options(const HandleOptions& options, bool use_gds) {
  DS_CHECK(options.intra_op_parallelism > 0, "handle: intra_op_parallelism {}, expected at least 1",
           options.intra_op_parallelism);
  return {.block_size = options.block_size,
          .queue_depth = options.queue_depth,
          .single_submit = options.single_submit,
          .overlap_events = options.overlap_events,
          .thread_count = options.intra_op_parallelism,
          .use_gds = use_gds,
          .engine = options.engine};
}

// The file holds what the tensor is to be filled with.
void check_size(const Tensor& into, const IoFile& file, std::optional<int64_t> offset) {
  const int64_t size = file.size();
  const int64_t wanted = narrow<int64_t>(into.bytes());
  if (offset ? *offset + wanted <= size : wanted == size) return;
  if (offset) {
    throw DataError(
        fmt::format("reading {}: it has {} bytes, too short for the tensor's {} from "
                    "offset {}",
                    file.path(), size, wanted, *offset));
  }
  throw DataError(
      fmt::format("reading {}: it has {} bytes and the tensor {}; to read a part of the "
                  "file, give its offset",
                  file.path(), size, wanted));
}

// A tensor that is the whole file leaves nothing of a longer one.
void cut_to(const IoFile& file, int64_t bytes) {
  if (file.size() > bytes && ftruncate(file.fd(), bytes) != 0) {
    throw_io_error("truncate", file.path(), errno);
  }
}

std::span<std::byte> host_bytes(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()};
}

Validate validation(const TransferOptions& how) {
  return how.validate ? Validate::kYes : Validate::kNo;
}

}  // namespace

IoHandle::IoHandle(const HandleOptions& options, bool use_gds, Stream* stream)
    : io_(std::make_unique<AsyncIo>(io_options(options, use_gds)),
          {.path = use_gds ? TensorIo::DevicePath::kDirect : TensorIo::DevicePath::kStaged,
           .stream = stream}),
      options_(options) {}

void IoHandle::pread(const Tensor& into, const std::string& path, const TransferOptions& how) {
  auto file = std::make_shared<IoFile>(IoFile::open(path, OpenMode::kRead));
  check_size(into, *file, how.file_offset);
  io_.begin_read(into, std::move(file), how.file_offset.value_or(0), validation(how));
  if (!how.async) io_.wait();
}

void IoHandle::pwrite(const Tensor& from, const std::string& path, const TransferOptions& how) {
  auto file = std::make_shared<IoFile>(IoFile::open(path, OpenMode::kReadWrite));
  if (!how.file_offset) cut_to(*file, narrow<int64_t>(from.bytes()));
  io_.begin_write(from, std::move(file), how.file_offset.value_or(0), validation(how));
  if (!how.async) io_.wait();
}

void IoHandle::sync_pread(const Tensor& into, const std::string& path, Offset file_offset) {
  pread(into, path, {.file_offset = file_offset});
}

void IoHandle::sync_pwrite(const Tensor& from, const std::string& path, Offset file_offset) {
  pwrite(from, path, {.file_offset = file_offset});
}

void IoHandle::async_pread(const Tensor& into, const std::string& path, Offset file_offset) {
  pread(into, path, {.async = true, .file_offset = file_offset});
}

void IoHandle::async_pwrite(const Tensor& from, const std::string& path, Offset file_offset) {
  pwrite(from, path, {.async = true, .file_offset = file_offset});
}

int IoHandle::wait() { return io_.wait(); }

void IoHandle::read(const Tensor& into, const std::string& path, Offset file_offset) {
  const IoFile file = IoFile::open_cached(path, OpenMode::kRead);
  check_size(into, file, file_offset);
  read_fully(file.fd(), file_offset.value_or(0), host_bytes(into), path);
}

void IoHandle::write(const Tensor& from, const std::string& path, Offset file_offset) {
  const std::span<std::byte> bytes = host_bytes(from);
  const IoFile file = IoFile::open_cached(path, OpenMode::kReadWrite);
  if (!file_offset) cut_to(file, narrow<int64_t>(from.bytes()));
  write_fully(file.fd(), file_offset.value_or(0), bytes, path);
}

Tensor IoHandle::new_cpu_locked_tensor(int64_t numel, DType dtype) {
  const Tensor tensor = locked_tensor(numel, dtype);
  io_.pin(tensor);
  return tensor;
}

bool IoHandle::free_cpu_locked_tensor(const Tensor& tensor) { return io_.unpin(tensor); }

Tensor GdsHandle::new_pinned_device_tensor(int64_t numel, DType dtype) {
  const Tensor tensor = Tensor::empty({numel}, dtype, *io_.stream());
  io_.pin(tensor);
  return tensor;
}

void GdsHandle::pin_device_tensor(const Tensor& tensor) {
  DS_CHECK(tensor.device().kind == Device::Kind::kCuda, "pin_device_tensor: the tensor is on {}",
           tensor.device().to_string());
  io_.pin(tensor);
}

}  // namespace ds
