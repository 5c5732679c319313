// Checkpoints of llm.c (tests/golden/llmc/make.py), whole and spoiled.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/llmc/checkpoint.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "model/hf/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

namespace ds::llmc {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr const char* kHalf = "model_00000003.bin";   // with states of two ranks
constexpr const char* kWhole = "model_00000004.bin";  // without

std::string fixture(const std::string& name) {
  return testing::source_directory() + "/tests/golden/llmc/" + name;
}

std::shared_ptr<const Checkpoint> open(const std::string& path) {
  RealFileSystem files;
  return Checkpoint::open(files, path);
}

Bytes all_of(const StoredTensors& tensors, const std::string& name) {
  Bytes bytes(to_size(tensors.info(name).bytes));
  tensors.read_part(name, 0, bytes);
  return bytes;
}

void check_slot(const std::shared_ptr<const Checkpoint>& checkpoint, const std::string& slot) {
  RealFileSystem files;
  const SafetensorsFile wanted = SafetensorsFile::open(files, fixture(slot + ".safetensors"));
  const auto got = stored_slot(checkpoint, slot);
  REQUIRE(got->names() == wanted.names());
  for (const std::string& name : wanted.names()) {
    CAPTURE(slot, name);
    CHECK(got->info(name).shape == wanted.info(name).shape);
    Bytes bytes(to_size(wanted.info(name).bytes));
    wanted.read(name, bytes);
    CHECK(all_of(*got, name) == bytes);
  }
}

// Copies of the fixtures, to be spoiled.
struct Copied {
  Copied() { fs::copy(fixture(""), folder.path()); }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  void set(const std::string& name, int64_t word, int32_t value) const {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(word * 4);
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  testing::TemporaryDirectory folder;
};

}  // namespace

TEST_CASE("a checkpoint of llm.c has the tensors that transformers has of it", "[checkpoint]") {
  const auto half = open(fixture(kHalf));
  CHECK(half->step() == 3);
  CHECK(half->header().vocabulary == 61);
  CHECK(half->header().dtype == DType::kBF16);
  CHECK(half->slots() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  for (const char* const slot : {"fp32", "exp_avg", "exp_avg_sq"}) check_slot(half, slot);
  const auto whole = open(fixture(kWhole));
  CHECK_FALSE(whole->step());
  CHECK(whole->slots().empty());
  check_slot(whole, "fp32");
  CHECK_THROWS_AS(stored_slot(whole, "fp32")->info("lm_head.weight"), DataError);
}

TEST_CASE("weights of llm.c without masters are those of the model", "[checkpoint]") {
  const Copied copy;
  for (const char* const rank : {"0", "1"}) {
    fs::remove(copy.path(fmt::format("state_00000003_0000{}.bin", rank)));
  }
  const auto half = stored_slot(open(copy.path(kHalf)), "fp32");
  const auto whole = stored_slot(open(copy.path(kWhole)), "fp32");
  const std::string name = "transformer.h.1.mlp.c_fc.weight";
  CHECK(half->info(name).stored_dtype == DType::kBF16);
  const Bytes stored = all_of(*half, name), wanted = all_of(*whole, name);
  for (size_t i = 0; i < stored.size() / 2; ++i) {
    BF16 value;
    float exact = 0;
    std::memcpy(&value, stored.data() + 2 * i, 2);
    std::memcpy(&exact, wanted.data() + 4 * i, 4);
    REQUIRE(static_cast<float>(value) == static_cast<float>(static_cast<BF16>(exact)));
  }
  // A part of a tensor is that part.
  Bytes part(40);
  whole->read_part(name, 100, part);
  CHECK(std::equal(part.begin(), part.end(), wanted.begin() + 100));
}

TEST_CASE("states of llm.c of one rank, or of ranks that have all, are read", "[checkpoint]") {
  const Copied copy;
  // Two ranks without ZeRO: each has what both have here, of ones and twos.
  const int64_t count = element_count(open(copy.path(kWhole))->header());
  const std::vector<float> ones(to_size(count), 1), twos(to_size(count), 2);
  for (const char* const rank : {"state_00000003_00000.bin", "state_00000003_00001.bin"}) {
    fs::resize_file(copy.path(rank), kHeaderBytes);
    copy.set(rank, 4, 0);
    std::ofstream out(copy.path(rank), std::ios::binary | std::ios::app);
    for (const std::vector<float>* values : {&ones, &twos}) {
      out.write(reinterpret_cast<const char*>(values->data()), count * 4);
    }
  }
  const auto checkpoint = open(copy.path(kHalf));
  const Bytes bytes = all_of(*stored_slot(checkpoint, "exp_avg_sq"), "transformer.ln_f.bias");
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - 4, 4);
  CHECK(last == 2);
  CHECK(checkpoint->dtype_of("fp32") == DType::kBF16);
}

TEST_CASE("states of llm.c may have the order of samples behind them", "[checkpoint]") {
  // The order is longer than what ZeRO leaves out of the state of a model as small as this one.
  const Copied copy;
  const auto count = [](uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const int64_t samples = 2 * element_count(open(copy.path(kWhole))->header());
  const std::string order = count(2) + std::string(2 * 4, '\1') + count(to_size(samples)) +
                            std::string(to_size(samples) * 4, '\2') + std::string(2520, '\3');
  const Bytes wanted =
      all_of(*stored_slot(open(copy.path(kHalf)), "exp_avg"), "transformer.wpe.weight");
  const auto end_with = [&](const std::string& end) {
    for (const char* const rank : {"state_00000003_00000.bin", "state_00000003_00001.bin"}) {
      fs::copy_file(fixture(rank), copy.path(rank), fs::copy_options::overwrite_existing);
      copy.set(rank, 5, 1);
      std::ofstream(copy.path(rank), std::ios::binary | std::ios::app) << end;
    }
  };
  end_with(order);
  CHECK(all_of(*stored_slot(open(copy.path(kHalf)), "exp_avg"), "transformer.wpe.weight") ==
        wanted);
  for (const std::string& end : {std::string(), order.substr(1), order + "x", order.substr(0, 20),
                                 std::string(8, '\xff') + order}) {
    end_with(end);
    CHECK_THROWS_WITH(open(copy.path(kHalf)), Catch::Contains("and the order of samples"));
  }
  end_with(order);
  copy.set("state_00000003_00001.bin", 5, 0);
  CHECK_THROWS_AS(open(copy.path(kHalf)), DataError);
}

TEST_CASE("a folder may have a name as files of llm.c have", "[checkpoint]") {
  const testing::TemporaryDirectory folder;
  const std::string path = (folder.path() / "model_00000001.bin").string();
  fs::create_directory(path);
  RealFileSystem files;
  CHECK_FALSE(is_model_file(files, path));
  CHECK(is_model_file(files, fixture(kHalf)));
}

TEST_CASE("files of llm.c that are not whole are refused with their names", "[checkpoint]") {
  const auto refusal = [](const Copied& copy, const char* name) {
    try {
      open(copy.path(name));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto spoiled = [&](const char* name, int64_t word, int32_t value) {
    const Copied copy;
    copy.set(name, word, value);
    return refusal(copy, kHalf);
  };
  CHECK_THAT(spoiled(kHalf, 0, 20240803), Catch::Contains("Llama 3"));
  CHECK_THAT(spoiled(kHalf, 0, 5), Catch::Contains("no model of llm.c"));
  CHECK_THAT(spoiled(kHalf, 1, 1), Catch::Contains("of version 1"));
  CHECK_THAT(spoiled(kHalf, 4, 0), Catch::Contains("says 0 layers"));
  CHECK_THAT(spoiled(kHalf, 4, 1 << 30), Catch::Contains("layers, expected 1 to"));
  CHECK_THAT(spoiled(kHalf, 4, 3), Catch::Contains("a model of these sizes has"));
  CHECK_THAT(spoiled(kHalf, 5, 3), Catch::Contains("3 heads of 16 channels"));
  CHECK_THAT(spoiled(kHalf, 7, 60), Catch::Contains("60 rows for 61 tokens"));
  const char* const second = "state_00000003_00001.bin";
  CHECK_THAT(spoiled(second, 0, 1), Catch::Contains("00001.bin: is no state"));
  CHECK_THAT(spoiled(second, 3, 0), Catch::Contains("is of rank 0 of 2"));
  CHECK_THAT(spoiled(second, 10, 4), Catch::Contains("at step 4"));
  CHECK_THAT(spoiled("state_00000003_00000.bin", 2, 0), Catch::Contains("rank 0 of 0"));
  Copied copy;
  fs::resize_file(copy.path(second), 47484);
  CHECK_THAT(refusal(copy, kHalf), Catch::Contains("47484 bytes, expected 47488"));
  fs::remove(copy.path(second));
  CHECK_THAT(refusal(copy, kHalf), Catch::Contains("00001.bin: is missing"));
  const Copied second_alone;
  fs::remove(second_alone.path("state_00000003_00000.bin"));
  CHECK_THAT(refusal(second_alone, kHalf), Catch::Contains("00000.bin: is missing"));
  fs::resize_file(copy.path(kWhole), 100);
  CHECK_THAT(refusal(copy, kWhole), Catch::Contains("has 100 bytes, and a header has 1024"));
  RealFileSystem files;
  CHECK_FALSE(is_model_file(files, copy.path(kWhole)));
  CHECK_FALSE(is_model_file(files, copy.path("nothing.bin")));
  CHECK(is_model_file(files, copy.path(kHalf)));
}

}  // namespace ds::llmc
