// Parallel file write: four threads share each operation of the handle.
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place& place) {
    ds::example::Host host;
    const ds::Tensor t = ds::example::bytes_of_value(place.bytes, 7, host.stream);
    ds::AioHandle h({.intra_op_parallelism = 4});
    h.async_pwrite(t, place.file);
    ds::example::expect(h.wait() == 1, "wait() is 1: four threads, one operation");
    ds::example::expect(std::filesystem::file_size(place.file) == t.bytes(),
                        "a file of the tensor's size");
  });
}
