// A tag as it was written while the index had version 1, byte by byte: boxes and flat ranges in the
// files of two ranks, which read as regions of today.
#include "core/status/error.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using namespace ds::testing;

namespace {

constexpr const char* kManifest =
    R"({"digest":"5a688390aacdcc4636f573a2b1ffe390","format":"dslaunch checkpoint",)"
    R"("version":1,"tag":"t1","step":5,"epoch":1,"begun_in":0,"files":[{"name":)"
    R"("rank-00000.pieces","rank":0,"bytes":4096,"digest":)"
    R"("2ebe10bb9726ccd644e3a9a3aa77130a"},{"name":"rank-00001.pieces","rank":1,"bytes":)"
    R"(4096,"digest":"2e49b3912bf6d1af047af96feb5fabea"}]})";
constexpr const char* kIndex0 =
    R"({"version":1,"tag":"t1","epoch":1,"rank":0,"data_bytes":92,"pieces":[{"name":)"
    R"("box/weight","dtype":"fp32","shape":[4,6],"begin":[0,0],"end":[4,2],"offset":0},)"
    R"({"name":"flat/weight","dtype":"fp32","shape":[4,6],"begin":[0],"end":[7],"offset":)"
    R"(64}],"states":{"train":"{\"value\":1}"},"blocks":)"
    R"("aad51aa3ccd598ff0837d6f07270983f"})";
constexpr const char* kTrailer0 =
    R"(44535049454345535c00000000000000640f0000000000002ebe10bb9726ccd644e3a9a3aa77130a000)"
    R"(00000000000000000000000000000b10dc33f0de90689)";
constexpr const char* kIndex1 =
    R"({"version":1,"tag":"t1","epoch":1,"rank":1,"data_bytes":132,"pieces":[{"name":)"
    R"("box/weight","dtype":"fp32","shape":[4,6],"begin":[0,2],"end":[4,6],"offset":0},)"
    R"({"name":"flat/weight","dtype":"fp32","shape":[4,6],"begin":[7],"end":[24],"offset":)"
    R"(64}],"states":{},"blocks":"fe1d65c4cd76af10b8071349f743e2cd"})";
constexpr const char* kTrailer1 =
    R"(445350494543455384000000000000003c0f0000000000002e49b3912bf6d1af047af96feb5fabea000)"
    R"(000000000000000000000000000002dc11434a6057e1f)";

constexpr size_t kFileBytes = 4096;

// The data as floats, then the index with spaces behind it, then the trailer from its hex digits.
std::string file_of(const std::vector<float>& data, const std::string& index,
                    const std::string& trailer) {
  std::string out(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
  out += index;
  out.resize(kFileBytes - trailer.size() / 2, ' ');
  for (size_t i = 0; i < trailer.size(); i += 2) {
    out += static_cast<char>(std::stoi(trailer.substr(i, 2), nullptr, 16));
  }
  return out;
}

void write(FileSystem& fs, const std::string& path, const std::string& text) {
  fs.create(path)->write(0, std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("a tag of index version 1 reads in any layout", "[checkpoint]") {
  MemoryFileSystem fs;
  fs.make_directory("/c");
  fs.make_directory("/c/t1");
  write(fs, "/c/t1/manifest.json", kManifest);
  std::vector<float> data{0, 1, 6, 7, 12, 13, 18, 19};  // the box: columns 0 and 1
  data.resize(16);                                      // the next piece begins at byte 64
  for (int i = 0; i < 7; ++i) data.push_back(static_cast<float>(i));
  write(fs, "/c/t1/rank-00000.pieces", file_of(data, kIndex0, kTrailer0));
  data = {2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17, 20, 21, 22, 23};
  for (int i = 7; i < 24; ++i) data.push_back(static_cast<float>(i));
  write(fs, "/c/t1/rank-00001.pieces", file_of(data, kIndex1, kTrailer1));

  CheckpointReader reader = CheckpointReader::open(fs, "/c", "t1");
  reader.verify();
  CHECK(reader.state("train") == R"({"value":1})");
  const Shape shape{4, 6};
  for (const char* name : {"box/weight", "flat/weight"}) {
    REQUIRE(reader.info(name).shape == shape);
    Tensor whole = zeros(24);
    reader.get(name, Region::whole(shape), whole);
    CHECK(values_of(whole) == values_of(counting(24, 0)));
    Tensor part = zeros(5);
    reader.get(name, {{{{{1, 4}}, {{0, 1}, {3, 5}}}}, {2, 7}}, part);
    CHECK(values_of(part) == std::vector<float>{10, 12, 15, 16, 18});
  }
  CHECK(reader.ranks_holding("box/weight", Region::flat(2, 6)) == std::set<int>{1});
  CHECK(reader.ranks_holding("flat/weight", Region::flat(2, 7)) == std::set<int>{0});
}
