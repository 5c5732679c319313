// A handle with the numbers that `dslaunch nvme-tune` recommends, a part of a file by its offset,
// and bytes that are compared with the file.
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place& place) {
    ds::example::Host host;
    const ds::Tensor t = ds::example::bytes_of_value(place.bytes, 7, host.stream);
    ds::AioHandle h({.block_size = 1048576,
                     .queue_depth = 32,
                     .single_submit = false,
                     .overlap_events = true,
                     .intra_op_parallelism = 8});
    h.pwrite(t, place.file, {.validate = true});
    const ds::Tensor end = ds::example::bytes_of_value(place.bytes / 2, 0, host.stream);
    h.pread(end, place.file, {.validate = true, .file_offset = place.bytes - place.bytes / 2});
    ds::example::expect(end.data<uint8_t>()[0] == 7, "the second half of the file");
    try {
      h.sync_pread(end, place.file);
    } catch (const ds::DataError& refused) {
      fmt::print("refused: {}\n", refused.what());
      return;
    }
    ds::example::expect(false, "a file of another size to be refused");
  });
}
