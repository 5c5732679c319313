// Pieces whose elements lie on a device: the bytes of the files are those of the CPU's pieces, and
// either reads what the other wrote.
#include <functional>

#include "tests/checkpoint/fixture.h"
#include "tests/suites/rank_device.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds::testing {
namespace {

constexpr size_t kPartBytes = 40;  // ten elements, which end in the middle of rows
constexpr int kRanks = 2;
constexpr int64_t kLargestFile = int64_t{1} << 20;

using Put = std::function<void(CheckpointWriter&, const Piece&)>;

// "w/weight" in columns, the first of it in both ranks' files, and an empty tensor. Element i is i.
void save(FileSystem& fs, const Put& put) {
  CommitRequest request{"/c", "t", 1, 1, {}};
  for (int rank = 0; rank < kRanks; ++rank) {
    const Range columns = rank == 0 ? Range{0, 4} : Range{3, 11};
    const Region box = Region::all_of({{{{0, 7}}, {columns}}}, kShape);
    const Tensor data = zeros(box.numel());
    for (const Run& run : runs_of(box, kShape)) {
      for (int64_t i = 0; i < run.numel; ++i) {
        data.data<float>()[run.inside + i] = static_cast<float>(run.first + i);
      }
    }
    CheckpointWriter writer(fs, {"/c", "t", 1, rank}, 0);
    put(writer, {"w/weight", kShape, box, data});
    put(writer, {fmt::format("empty{}/weight", rank), Shape{0}, Region::flat(0, 0), zeros(0)});
    request.votes.push_back(writer.finish());
  }
  commit_tag(fs, request);
}

std::vector<std::string> files_of(FileSystem& fs) {
  std::vector<std::string> all;
  for (int rank = 0; rank < kRanks; ++rank) {
    all.push_back(fs.read_text("/c/t/" + pieces_file_name(rank), kLargestFile));
  }
  return all;
}

TEST_CASE("a checkpoint of a device's tensors has the bytes of the CPU's", "[checkpoint][device]") {
  if (has_no_device()) return;
  MemoryFileSystem of_cpu, of_device;
  save(of_cpu, [](CheckpointWriter& writer, const Piece& piece) { writer.put(piece); });
  RankDevice device;
  HostCopy through(device.stream, kPartBytes);
  save(of_device, [&](CheckpointWriter& writer, Piece piece) {
    piece.data = device.up(values_of(piece.data));
    writer.put(piece, through);
    // What comes later in the stream is not saved.
    device.stream.fill_bytes(piece.data.address(), 0, piece.data.bytes());
  });
  CHECK(files_of(of_cpu) == files_of(of_device));
}

TEST_CASE("a device reads any part of what was saved", "[checkpoint][device]") {
  if (has_no_device()) return;
  MemoryFileSystem fs;
  save(fs, [](CheckpointWriter& writer, const Piece& piece) { writer.put(piece); });
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
  RankDevice device;
  HostCopy through(device.stream, kPartBytes);
  for (const Region& region :
       {Region::whole(kShape), Region::flat(0, 0), Region::flat(3, 4), Region::flat(5, 72),
        Region::all_of({{{{1, 6}}, {{0, 2}, {3, 9}}}}, kShape)}) {
    CAPTURE(region.numel());
    Tensor on_host = zeros(region.numel());
    reader.get("w/weight", region, on_host);
    Tensor there = device.up(std::vector<float>(to_size(region.numel()), -1.0F));
    reader.get("w/weight", region, there, through);
    CHECK(device.down<float>(there) == values_of(on_host));
  }
}

TEST_CASE("what does not fit is refused for tensors of a device, too", "[checkpoint][device]") {
  if (has_no_device()) return;
  MemoryFileSystem fs;
  save(fs, [](CheckpointWriter& writer, const Piece& piece) { writer.put(piece); });
  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t");
  RankDevice device;
  HostCopy through(device.stream, kPartBytes);
  Tensor ten = device.up(std::vector<float>(10));
  CHECK_THROWS_WITH(reader.get("w/weight", Region::flat(0, 10), ten),
                    Catch::Contains("'w/weight' into a tensor on cuda:"));
  CHECK_THROWS_WITH(reader.get("w/weight", Region::flat(0, 11), ten, through),
                    Catch::Contains("'w/weight' into 10 elements, expected 11"));
  CHECK_THROWS_WITH(reader.get("w/other", Region::flat(0, 10), ten, through),
                    Catch::Contains("no tensor"));
  CheckpointWriter writer(fs, {"/c", "u", 1, 0}, 0);
  CHECK_THROWS_WITH(writer.put({"w/weight", kShape, Region::flat(0, 10), ten}),
                    Catch::Contains("piece 'w/weight' is on cuda:"));
  CHECK_THROWS_WITH(writer.put({"w/weight", kShape, Region::flat(0, 11), ten}, through),
                    Catch::Contains("piece 'w/weight' has 10 elements, expected 11"));
}

}  // namespace
}  // namespace ds::testing
