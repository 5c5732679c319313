// Tensors of a GPU, pinned for GPUDirect Storage: one that the handle makes, one that is there.
#include "core/cuda/memory.h"
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place& place) {
    const ds::Device gpu = ds::Device::cuda(0);
    const auto memory = ds::make_device_memory(gpu, 3 * static_cast<size_t>(place.bytes));
    ds::Stream stream({.device = gpu, .memory = memory.get()});
    ds::GdsHandle h({}, stream);
    const ds::Tensor t = ds::example::bytes_of_value(place.bytes, 7, stream);
    h.pin_device_tensor(t);
    h.async_pwrite(t, place.file);
    ds::example::expect(h.wait() == 1, "wait() is 1 after one operation");
    ds::example::expect(std::filesystem::file_size(place.file) == t.bytes(),
                        "a file of the tensor's size");
    ds::example::expect(h.unpin_device_tensor(t), "the tensor was pinned");
    const ds::Tensor back = h.new_pinned_device_tensor(place.bytes, ds::DType::kU8);
    h.pread(back, place.file, {.validate = true});
    ds::example::expect(h.free_pinned_device_tensor(back), "the tensor was the handle's");
  });
}
