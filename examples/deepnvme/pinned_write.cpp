// A tensor whose pages are locked in memory, for the fastest transfers.
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place& place) {
    ds::AioHandle h;
    const ds::Tensor t = h.new_cpu_locked_tensor(place.bytes, ds::DType::kU8);
    t.data<uint8_t>()[0] = 7;
    h.async_pwrite(t, place.file);
    ds::example::expect(h.wait() == 1, "wait() is 1 after one operation");
    ds::example::expect(std::filesystem::file_size(place.file) == t.bytes(),
                        "a file of the tensor's size");
    ds::example::expect(h.free_cpu_locked_tensor(t), "the handle had the tensor");
    ds::example::expect(!h.free_cpu_locked_tensor(t), "it has it no more");
  });
}
