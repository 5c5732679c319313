// Non-blocking file write: several operations are under way while the program goes on; one wait()
// is for all. Until then nobody may change the tensors.
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place& place) {
    ds::example::Host host;
    const ds::Tensor t = ds::example::bytes_of_value(place.bytes, 7, host.stream);
    ds::AioHandle h;
    h.async_pwrite(t, place.file);
    ds::example::expect(h.wait() == 1, "wait() is 1 after one operation");
    ds::example::expect(std::filesystem::file_size(place.file) == t.bytes(),
                        "a file of the tensor's size");
    // Two halves of one file, one after the other in it.
    h.async_pwrite(t, place.file, 0);
    h.async_pwrite(t, place.file, place.bytes);
    ds::example::expect(h.wait() == 2, "wait() is 2 after two operations");
    t.data<uint8_t>()[0] = 8;  // no race: nothing is under way
    ds::example::expect(std::filesystem::file_size(place.file) == 2 * t.bytes(),
                        "a file of twice the tensor's size");
  });
}
