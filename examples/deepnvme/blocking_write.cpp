// Blocking file write: the tensor is in the file when sync_pwrite() returns.
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place& place) {
    ds::example::Host host;
    const ds::Tensor t = ds::example::bytes_of_value(place.bytes, 7, host.stream);
    ds::example::expect(!std::filesystem::exists(place.file), "no file before");
    ds::AioHandle h;
    h.sync_pwrite(t, place.file);
    ds::example::expect(std::filesystem::file_size(place.file) == t.bytes(),
                        "a file of the tensor's size");
    const ds::Tensor back = ds::example::bytes_of_value(place.bytes, 0, host.stream);
    h.sync_pread(back, place.file);
    ds::example::expect(back.data<uint8_t>()[place.bytes - 1] == 7, "the bytes that were written");
  });
}
