#include "offload/handles/tensor_io.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "core/cuda/memory.h"
#include "core/memory/aligned_buffer.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr size_t kCompareBytes = size_t{1} << 20;  // at a time

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.address()), tensor.bytes()};
}

bool is_on_device(const Tensor& tensor) { return tensor.device().kind == Device::Kind::kCuda; }

bool is_multiple(int64_t value, int64_t of) { return value % of == 0; }

}  // namespace

// Pinned memory of the host that stands for a tensor of a device.
struct TensorIo::Staging {
  explicit Staging(size_t size)
      : bytes(size),
        memory(make_pinned_memory(size)),
        data(static_cast<std::byte*>(memory->allocate(size, MemoryTag::kScratch))) {}
  ~Staging() { memory->deallocate(data, bytes, MemoryTag::kScratch); }
  Staging(const Staging&) = delete;  // owns the memory
  Staging& operator=(const Staging&) = delete;

  const size_t bytes;
  std::unique_ptr<MemoryResource> memory;
  std::byte* const data;
};

struct TensorIo::Operation {
  IoKind kind;
  Tensor tensor;
  std::shared_ptr<IoFile> file;
  int64_t offset;
  Validate validate;
  std::unique_ptr<Staging> staging = nullptr;
  Ticket ticket = {};
  std::span<std::byte> memory = {};
};

struct TensorIo::Pinned {
  const void* address;
  AsyncIo::Registration registration;
};

Tensor locked_tensor(int64_t numel, DType dtype) {
  DS_CHECK(numel > 0, "locked tensor: {} elements, expected at least one", numel);
  auto buffer = std::make_shared<AlignedBuffer>(to_size(numel) * size_of(dtype));
  void* const data = buffer->data();
  if (const int refusal = buffer->lock(); refusal != 0) {
    throw OutOfMemory(fmt::format(
        "locked tensor: {} bytes cannot be locked: {}; raise the limit on locked memory "
        "(`ulimit -l`, LimitMEMLOCK= of systemd)",
        buffer->bytes().size(), std::strerror(refusal)));
  }
  return Tensor::borrow(data, {numel}, dtype, Device::cpu(), std::move(buffer));
}

TensorIo::TensorIo(std::unique_ptr<AsyncIo> io, const Options& options)
    : options_(options), io_(std::move(io)) {}

TensorIo::~TensorIo() {
  try {
    wait();
  } catch (const std::exception& error) {
    spdlog::error("nobody waited for asynchronous I/O that failed: {}", error.what());
  }
  pinned_.clear();
  // What came too late needs its memory until the threads of AsyncIo have ended.
  io_.reset();
}

void TensorIo::check(const Tensor& tensor, const IoFile& file, int64_t offset) const {
  DS_CHECK(tensor.defined() && !tensor.is_meta(), "tensor I/O: the tensor has no bytes");
  DS_CHECK(offset >= 0, "tensor I/O of {}: offset {} is negative", file.path(), offset);
  if (options_.path == DevicePath::kStaged) {
    if (is_on_device(tensor) && options_.stream == nullptr) {
      throw Unsupported(
          fmt::format("tensor I/O of {}: the tensor is on {}, and the handle has no "
                      "stream of that device",
                      file.path(), tensor.device().to_string()));
    }
    return;
  }
  if (!is_on_device(tensor)) {
    throw Unsupported(
        fmt::format("GPUDirect Storage of {}: the tensor is on the host; use an "
                    "AioHandle",
                    file.path()));
  }
  const int64_t unit = file.alignment().offset;
  if (file.direct_fd() < 0) {
    throw Unsupported(fmt::format("GPUDirect Storage of {}: {}", file.path(), file.why_cached()));
  }
  if (!is_multiple(offset, unit) || !is_multiple(narrow<int64_t>(tensor.bytes()), unit)) {
    throw Unsupported(
        fmt::format("GPUDirect Storage of {}: offset {} and length {} have to be "
                    "multiples of {}",
                    file.path(), offset, tensor.bytes(), unit));
  }
}

std::unique_ptr<TensorIo::Staging> TensorIo::take_staging(size_t bytes) {
  const auto fits = std::ranges::find_if(
      free_staging_, [&](const auto& staging) { return staging->bytes >= bytes; });
  if (fits == free_staging_.end()) return std::make_unique<Staging>(bytes);
  std::unique_ptr<Staging> out = std::move(*fits);
  free_staging_.erase(fits);
  return out;
}

std::span<std::byte> TensorIo::reachable(Operation& operation) {
  if (!is_on_device(operation.tensor) || options_.path == DevicePath::kDirect) {
    return bytes_of(operation.tensor);
  }
  operation.staging = take_staging(operation.tensor.bytes());
  return {operation.staging->data, operation.tensor.bytes()};
}

std::unique_ptr<TensorIo::Operation> TensorIo::prepare(IoKind kind, const Tensor& tensor,
                                                       std::shared_ptr<IoFile> file, int64_t offset,
                                                       Validate validate) {
  check(tensor, *file, offset);
  auto operation =
      std::make_unique<Operation>(Operation{kind, tensor, std::move(file), offset, validate});
  operation->memory = reachable(*operation);
  return operation;
}

// What AsyncIo refuses is not under way, and nobody is to wait for it.
void TensorIo::begin(std::unique_ptr<Operation> begun) {
  Operation& operation = *operations_.emplace_back(std::move(begun));
  try {
    operation.ticket = operation.kind == IoKind::kRead
                           ? io_->read(*operation.file, operation.offset, operation.memory)
                           : io_->write(*operation.file, operation.offset, operation.memory);
  } catch (...) {
    operations_.pop_back();
    throw;
  }
}

void TensorIo::begin_read(const Tensor& tensor, std::shared_ptr<IoFile> file, int64_t offset,
                          Validate validate) {
  begin(prepare(IoKind::kRead, tensor, std::move(file), offset, validate));
}

void TensorIo::begin_write(const Tensor& tensor, std::shared_ptr<IoFile> file, int64_t offset,
                           Validate validate) {
  auto operation = prepare(IoKind::kWrite, tensor, std::move(file), offset, validate);
  if (operation->staging != nullptr) {
    options_.stream->copy(tensor.address(), operation->memory.data(), tensor.bytes());
    options_.stream->synchronize();
  } else if (is_on_device(tensor) && options_.stream != nullptr) {
    options_.stream->synchronize();  // the engine knows nothing of streams
  }
  begin(std::move(operation));
}

void TensorIo::compare(const Operation& operation) const {
  std::vector<std::byte> from_file(std::min(kCompareBytes, operation.memory.size()));
  std::vector<std::byte> from_device(
      operation.staging == nullptr && is_on_device(operation.tensor) ? from_file.size() : 0);
  for (size_t at = 0; at < operation.memory.size(); at += from_file.size()) {
    const size_t count = std::min(from_file.size(), operation.memory.size() - at);
    std::span<const std::byte> moved = operation.memory.subspan(at, count);
    if (!from_device.empty()) {
      DS_CHECK(options_.stream != nullptr, "tensor I/O: validation needs the device's stream");
      options_.stream->copy(moved.data(), from_device.data(), count);
      options_.stream->synchronize();
      moved = std::span(from_device).first(count);
    }
    read_fully(operation.file->fd(), operation.offset + narrow<int64_t>(at),
               std::span(from_file).first(count), operation.file->path());
    const auto differs = std::ranges::mismatch(moved, std::span(from_file).first(count)).in1;
    if (differs == moved.end()) continue;
    throw ValidationError(
        fmt::format("validate {} of {}: file and tensor differ first at byte {} of the file",
                    operation.kind == IoKind::kRead ? "pread" : "pwrite", operation.file->path(),
                    operation.offset + narrow<int64_t>(at) + (differs - moved.begin())));
  }
}

void TensorIo::finish(Operation& operation) {
  io_->wait(operation.ticket);
  if (operation.validate == Validate::kYes) compare(operation);
  if (operation.staging == nullptr) return;
  if (operation.kind == IoKind::kRead) {
    options_.stream->copy(operation.memory.data(), operation.tensor.address(),
                          operation.tensor.bytes());
    options_.stream->synchronize();
  }
  free_staging_.push_back(std::move(operation.staging));
}

int TensorIo::wait() {
  std::exception_ptr first;
  const int count = static_cast<int>(operations_.size());
  for (std::unique_ptr<Operation>& operation : operations_) {
    try {
      finish(*operation);
    } catch (const IoTimeout&) {
      late_.push_back(std::move(operation));
      if (first == nullptr) first = std::current_exception();
    } catch (const std::exception&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  operations_.clear();
  if (first != nullptr) std::rethrow_exception(first);
  return count;
}

void TensorIo::pin(const Tensor& tensor) {
  DS_CHECK(tensor.defined(), "pin: the tensor has no bytes");
  DS_CHECK(std::ranges::find(pinned_, tensor.address(), &Pinned::address) == pinned_.end(),
           "pin: the tensor is pinned already");
  pinned_.push_back({tensor.address(), io_->register_memory(bytes_of(tensor))});
  pinned_tensors_.push_back(tensor);
}

bool TensorIo::unpin(const Tensor& tensor) {
  const auto found = std::ranges::find(pinned_, tensor.address(), &Pinned::address);
  if (found == pinned_.end()) return false;
  DS_CHECK(
      std::ranges::none_of(
          operations_, [&](const auto& operation) { return operation->tensor.aliases(tensor); }),
      "unpin: the tensor is under way; wait() first");
  pinned_.erase(found);
  std::erase_if(pinned_tensors_, [&](const Tensor& one) { return one.aliases(tensor); });
  return true;
}

}  // namespace ds
