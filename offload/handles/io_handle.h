// AioHandle and GdsHandle: tensors stored to files and loaded from them, by path, blocking or not.
// They have the methods and the default numbers of DeepNVMe's handles of these names; examples are
// in examples/deepnvme.
//
//   AioHandle h;                                        // tensors of the host
//   h.async_pwrite(tensor, "/local_nvme/tensor");       // begins
//   h.wait();                                           // 1: so many are done
//
// Without a file_offset a tensor is the whole file: a write leaves a file of the tensor's size, and
// a read refuses a file of another size. With one it is the bytes from there. Errors are one
// exception: IoError with file, offset and length; InputMissing; DataError for a file that does not
// fit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/device/tensor.h"
#include "offload/handles/tensor_io.h"

namespace ds {

// The defaults are those of the handles; the configuration's "aio" section has others.
struct HandleOptions {
  int64_t block_size = int64_t{1} << 20;  // bytes
  int queue_depth = 128;
  bool single_submit = false;
  bool overlap_events = false;
  int intra_op_parallelism = 1;                     // threads that share each operation
  std::optional<EngineKind> engine = std::nullopt;  // none: the best of the machine
};

struct TransferOptions {
  bool validate = false;  // compare with the file afterwards; ValidationError
  bool async = false;     // begin only; wait() waits
  std::optional<int64_t> file_offset = std::nullopt;  // bytes
};

// What both handles have. Confined to one thread. To avoid races, what is being written is changed,
// and what is being read is looked at, only after wait().
class IoHandle {
 public:
  using Offset = std::optional<int64_t>;

  int64_t block_size() const { return options_.block_size; }
  int queue_depth() const { return options_.queue_depth; }
  bool single_submit() const { return options_.single_submit; }
  bool overlap_events() const { return options_.overlap_events; }
  int intra_op_parallelism() const { return options_.intra_op_parallelism; }

  void pread(const Tensor& into, const std::string& path, const TransferOptions& how = {});
  void pwrite(const Tensor& from, const std::string& path, const TransferOptions& how = {});
  void sync_pread(const Tensor& into, const std::string& path, Offset file_offset = {});
  void sync_pwrite(const Tensor& from, const std::string& path, Offset file_offset = {});
  void async_pread(const Tensor& into, const std::string& path, Offset file_offset = {});
  void async_pwrite(const Tensor& from, const std::string& path, Offset file_offset = {});
  // How many of the operations begun since the last wait are done: all. Throws the first error of
  // theirs, when none is under way any more.
  int wait();

  // The same by plain calls of this thread, through the page cache: what the engines are held
  // against. Tensors of the host only.
  void read(const Tensor& into, const std::string& path, Offset file_offset = {});
  void write(const Tensor& from, const std::string& path, Offset file_offset = {});

  // A flat tensor of the host whose pages are locked in memory, for the fastest transfers. It lives
  // as long as any Tensor of it; freeing ends what the handle holds of it. False where the handle
  // holds nothing of it.
  Tensor new_cpu_locked_tensor(int64_t numel, DType dtype);
  bool free_cpu_locked_tensor(const Tensor& tensor);

  std::string engine_name() { return io_.io().engine_name(); }

 protected:
  IoHandle(const HandleOptions& options, bool use_gds, Stream* stream);
  ~IoHandle() = default;

  TensorIo io_;

 private:
  const HandleOptions options_;
};

// An AioHandle uses the best engine of the machine (offload/async_io/choose_engine.h).
class AioHandle : public IoHandle {
 public:
  // stream: of the device whose tensors are moved, too; null: the host's alone. It has to outlive
  // the handle.
  explicit AioHandle(const HandleOptions& options = {}, Stream* stream = nullptr)
      : IoHandle(options, false, stream) {}
};

// Between files and memory of a GPU without the host. Unsupported, with what is missing, where
// cuFile or its driver is not there.
class GdsHandle : public IoHandle {
 public:
  // stream: of the GPU; it has to outlive the handle.
  GdsHandle(const HandleOptions& options, Stream& stream) : IoHandle(options, true, &stream) {}

  Tensor new_pinned_device_tensor(int64_t numel, DType dtype);
  bool free_pinned_device_tensor(const Tensor& tensor) { return io_.unpin(tensor); }
  void pin_device_tensor(const Tensor& tensor);
  bool unpin_device_tensor(const Tensor& tensor) { return io_.unpin(tensor); }
};

}  // namespace ds
