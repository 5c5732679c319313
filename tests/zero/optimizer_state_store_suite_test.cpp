// The conformance suite of OptimizerStateStore: wherever state lies, and however it is cut, it is
// handed out once, stays as it was left, and comes to the same bits.
#include <cmath>
#include <filesystem>
#include <functional>

#include "comm/solo_comm.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/step/scalars.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/test_stream.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {
namespace {

using Floats = std::vector<float>;
using testing::floats_of;
using testing::TestStream;

constexpr std::array<int64_t, 3> kSlices{160, 96, 32};

float value_of(std::string_view what, int bucket, int64_t index) {
  const Rng rng(11, what);
  return static_cast<float>(
             rng.derive(static_cast<uint64_t>(bucket)).bits(static_cast<uint64_t>(index)) % 2001) /
             1000 -
         1;
}

// What one rank has, beside the state store that is tried.
struct Place {
  TestStream device;
  HostMemory heap;
  MemoryAccount host_account, nvme_account;
  TrackingMemory host_memory{heap, host_account};
  Stream host{{.device = Device::cpu(), .memory = &host_memory, .pool = &device.pool}};
  testing::TemporaryDirectory directory;
  SwapSpace swap{.open =
                     [this](int64_t bytes) {
                       return std::make_unique<Swapper>(
                           SwapperOptions{.directory = directory.path().string(),
                                          .owner = {.job = "suite"},
                                          .bytes = bytes},
                           std::make_unique<AsyncIo>(IoOptions{.engine = EngineKind::kThreads}));
                     },
                 .account = nvme_account};
  HostPlace host_place{.stream = host, .pinned = nullptr};
  ThreadPool updater_pool{1};
  Stream updater{{.device = Device::cpu(), .memory = &host_memory, .pool = &updater_pool}};
  std::vector<StateSlice> slices;

  explicit Place(DType dtype) {
    for (size_t b = 0; b < kSlices.size(); ++b) {
      slices.push_back(
          {.weights = Tensor::zeros({kSlices[b]}, dtype, device.stream),
           .fields = {
               {.param = narrow<int>(b), .param_begin = 5, .numel = kSlices[b] - 3, .offset = 0}}});
    }
  }
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<OptimizerStateStore>(Place&, StateOptions)> make;
};

enum class Ahead : uint8_t { kNo, kYes };

Kind rolling(std::string name, NvmeStateOptions options, Ahead ahead = Ahead::kNo) {
  options.pinning = Pinning::kNone;
  return {std::move(name), [=](Place& place, StateOptions state) {
            state.weight_dtype = place.slices.front().weights.dtype();
            HostPlace host = place.host_place;
            if (ahead == Ahead::kYes) host.updater = &place.updater;
            return make_nvme_state(state, place.slices, place.device.stream, host, place.swap,
                                   options);
          }};
}

std::unique_ptr<OptimizerStateStore> device_state(Place& place, const StateOptions& options) {
  return make_device_state(options, place.slices, place.device.stream);
}
std::unique_ptr<OptimizerStateStore> host_state(Place& place, const StateOptions& options) {
  return make_host_state(options, place.slices, place.device.stream, place.host_place);
}

std::unique_ptr<OptimizerStateStore> state_ahead(Place& place, const StateOptions& options) {
  return make_host_state(options, place.slices, place.device.stream,
                         {.stream = place.host, .pinned = nullptr, .updater = &place.updater});
}

Kind split(const Kind& first, double ratio) {
  return {fmt::format("{} of {}, the rest on the device", ratio, first.name),
          [=](Place& place, StateOptions options) {
            StateOptions rest = options;
            options.share = {.first = 0, .last = ratio};
            rest.share = {.first = ratio, .last = 1};
            return make_split_state(first.make(place, options), device_state(place, rest));
          }};
}

std::vector<Kind> kinds() {
  const Kind host{"host", host_state};
  const Kind plain = rolling("rolling", {.buffers = 1});
  const Kind ahead{"host, ahead", state_ahead};
  std::vector<Kind> all{{"device", device_state}, host, ahead, plain};
  all.push_back(rolling("rolling, reading ahead", {.buffers = 2, .pipeline_read = true}));
  all.push_back(
      rolling("rolling, both ways",
              {.buffers = 4, .pipeline_read = true, .pipeline_write = true, .fast_init = true}));
  const Kind rolling_ahead = rolling(
      "rolling, ahead", {.buffers = 3, .pipeline_read = true, .pipeline_write = true}, Ahead::kYes);
  all.push_back(rolling_ahead);
  all.push_back(rolling("rolling, ahead in one buffer", {.buffers = 1}, Ahead::kYes));
  for (const double ratio : {0.0, 0.3, 1.0}) {
    all.push_back(split(host, ratio));
    all.push_back(split(rolling_ahead, ratio));
    all.push_back(split(ahead, ratio));
    all.push_back(split(plain, ratio));
  }
  return all;
}

StateOptions options_of(int64_t part_numel) {
  return {.slots = {{.name = "first"}, {.name = "second"}},
          .grad_dtype = DType::kF32,
          .part_numel = part_numel};
}

void put(Stream& stream, const Tensor& to, const Floats& values) {
  stream.copy(values.data(), to.address(), to.bytes());
  stream.synchronize();
}

Floats values_of(std::string_view what, const StatePart& part) {
  Floats values;
  for (int64_t i = 0; i < part.numel; ++i) {
    values.push_back(value_of(what, part.bucket, part.begin + i));
  }
  return values;
}

void fill(OptimizerStateStore& state) {
  state.visit(PartAccess::kFill, [](OpenPart& open) {
    for (const Tensor& slot : open.shard.slots) {
      for (const float value : floats_of(slot)) REQUIRE(value == 0);
    }
    put(open.stream, open.shard.master, values_of("weight", open.part));
    if (open.shard.copy.defined()) kernels::cast(open.stream, open.shard.master, open.shard.copy);
  });
}

void store_gradients(OptimizerStateStore& state, Place& place, std::string_view what) {
  for (int b = narrow<int>(kSlices.size()) - 1; b >= 0; --b) {  // as a backward pass has them
    const StatePart all{.bucket = b, .numel = nth(kSlices, b)};
    Stream& stream = place.device.stream;
    const Tensor slice = testing::upload(values_of(what, all), {all.numel}, stream);
    state.store_final_gradient(b, slice, stream);
  }
}

// master, slots and weights of all slices, as the update of a state store leaves them.
std::vector<Floats> trained(const Kind& kind, DType dtype, int64_t part_numel, int steps) {
  Place place(dtype);
  SoloComm alone(place.heap);
  const auto state = kind.make(place, options_of(part_numel));
  fill(*state);
  const auto optimizer = make_adam({.lr = 0.1, .weight_decay = 0.1});
  StepScalars scalars(1, place.device.stream), on_host(1, place.host);
  for (int step = 1; step <= steps; ++step) {
    scalars.upload(optimizer->inputs({.lr = 0.1}, step), 0);
    StepOutcome outcome;
    outcome.grad_scale = 0.5F;
    scalars.write(outcome);
    scalars.copy_to(on_host);
    // Each second step turns out to be one that should not have been made ahead.
    state->begin_ahead([&](OpenPart& open) {
      optimizer->step({&open.shard, 1}, on_host, alone, open.stream);
    });
    store_gradients(*state, place, fmt::format("gradient {}", step));
    state->end_ahead(step % 2 == 0 ? SpeculativeUpdate::Verdict::kUndo
                                   : SpeculativeUpdate::Verdict::kKeep);
    state->visit(PartAccess::kUpdate, [&](OpenPart& open) {
      if (open.is_ahead) {
        if (open.shard.copy.defined()) {
          kernels::cast(open.stream, open.shard.master, open.shard.copy);
        }
        return;
      }
      const bool here = &open.stream == &place.device.stream;
      optimizer->step({&open.shard, 1}, here ? scalars : on_host, alone, open.stream);
    });
  }
  std::vector<Floats> all(3 * kSlices.size());
  state->visit(PartAccess::kRead, [&](OpenPart& open) {
    const auto bucket = static_cast<size_t>(open.part.bucket);
    const auto keep = [&](size_t at, const Tensor& tensor) {
      Floats& into = all[3 * bucket + at];
      into.resize(to_size(kSlices[bucket]));
      std::ranges::copy(floats_of(tensor), into.begin() + open.part.begin);
    };
    keep(0, open.shard.master);
    for (size_t slot = 0; slot < 2; ++slot) keep(1 + slot, open.shard.slots[slot]);
  });
  for (const StateSlice& slice : place.slices) all.push_back(floats_of(slice.weights));
  return all;
}

TEST_CASE(
    "every state store has every element of every slice in one part, no longer than asked for",
    "[zero][device]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    Place place(DType::kF32);
    const auto state = kind.make(place, options_of(64));
    std::vector<StatePart> visited;
    state->visit(PartAccess::kFill, [&](OpenPart& open) { visited.push_back(open.part); });
    CHECK(visited == std::vector(state->parts().begin(), state->parts().end()));
    std::vector<int64_t> elements(kSlices.size(), 0);
    for (const StatePart& part : visited) {
      CHECK(part.numel <= 64);
      elements[static_cast<size_t>(part.bucket)] += part.numel;
    }
    CHECK(std::ranges::equal(elements, kSlices));
  }
}

TEST_CASE("what is left in a state store is there in every later visit", "[zero][device]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    Place place(DType::kBF16);
    const auto state = kind.make(place, options_of(64));
    fill(*state);
    state->visit(PartAccess::kChange, [&](OpenPart& open) {
      REQUIRE(floats_of(open.shard.master) == values_of("weight", open.part));
      REQUIRE(open.shard.fields ==
              fields_within(place.slices[static_cast<size_t>(open.part.bucket)].fields, open.part));
      put(open.stream, open.shard.slots[1], values_of("slot", open.part));
    });
    for (int round = 0; round < 2; ++round) {
      state->visit(PartAccess::kRead, [&](OpenPart& open) {
        REQUIRE(floats_of(open.shard.master) == values_of("weight", open.part));
        for (const float value : floats_of(open.shard.slots[0])) REQUIRE(value == 0);
        REQUIRE(floats_of(open.shard.slots[1]) == values_of("slot", open.part));
      });
    }
  }
}

TEST_CASE("what nobody has filled is zeros for the first who changes it", "[zero][device]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    Place place(DType::kF32);
    const auto state = kind.make(place, options_of(64));
    state->visit(PartAccess::kChange, [&](OpenPart& open) {
      for (const float value : floats_of(open.shard.slots[0])) REQUIRE(value == 0);
      put(open.stream, open.shard.slots[0], values_of("slot", open.part));
    });
    state->visit(PartAccess::kRead, [&](OpenPart& open) {
      REQUIRE(floats_of(open.shard.slots[0]) == values_of("slot", open.part));
    });
  }
}

TEST_CASE("gradients come back as they were stored last, and meet their part", "[zero][device]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    Place place(DType::kF32);
    const auto state = kind.make(place, options_of(64));
    fill(*state);
    for (const char* what : {"gradient", "its sum"}) {
      store_gradients(*state, place, what);
      for (int b = 0; b < narrow<int>(kSlices.size()); ++b) {
        const StatePart all{.bucket = b, .numel = nth(kSlices, b)};
        Tensor back = Tensor::empty({all.numel}, DType::kF32, place.device.stream);
        state->load_gradient(b, back, place.device.stream);
        CHECK(floats_of(back) == values_of(what, all));
      }
    }
    state->visit(PartAccess::kUpdate, [&](OpenPart& open) {
      REQUIRE(floats_of(open.shard.grad) == values_of("its sum", open.part));
    });
  }
}

TEST_CASE("every state store and every cut updates to the same bits", "[zero]") {
  if (testing::is_on_device()) return;  // a device's arithmetic is not the host's
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Floats> expected = trained({"device", device_state}, dtype, INT64_MAX, 3);
    for (const Kind& kind : kinds()) {
      for (const int64_t part_numel : {int64_t{32}, int64_t{96}, INT64_MAX}) {
        CAPTURE(kind.name, name_of(dtype), part_numel);
        CHECK(trained(kind, dtype, part_numel, 3) == expected);
      }
    }
  }
}

TEST_CASE("on a device the host's updates reach the weights", "[zero][device]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Floats> expected = trained({"device", device_state}, dtype, INT64_MAX, 3);
    for (const Kind& kind : kinds()) {
      CAPTURE(kind.name, name_of(dtype));
      const std::vector<Floats> got = trained(kind, dtype, 64, 3);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        for (size_t k = 0; k < got[i].size(); ++k) {
          REQUIRE(std::abs(got[i][k] - expected[i][k]) <= 0.01F);
        }
      }
    }
  }
}

TEST_CASE("an error inside of a visit leaves a state store that can be visited again", "[zero]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    Place place(DType::kF32);
    const auto state = kind.make(place, options_of(64));
    const auto fail = [](OpenPart& open) {
      if (open.part.begin > 0) throw ValidationError("it is not what it should be");
    };
    if (state->parts().size() > kSlices.size()) {
      CHECK_THROWS_AS(state->visit(PartAccess::kFill, fail), ValidationError);
      CHECK_THROWS_AS(state->visit(PartAccess::kChange, fail), ValidationError);
    }
    fill(*state);
    state->visit(PartAccess::kRead, [&](OpenPart& open) {
      REQUIRE(floats_of(open.shard.master) == values_of("weight", open.part));
    });
  }
}

TEST_CASE("state stores take what they should of each tier, and give it back", "[zero]") {
  Place place(DType::kBF16);
  constexpr int64_t kNumel = 160 + 96 + 32;
  {
    const auto state = host_state(place, options_of(64));
    CHECK(place.host_account.usage().bytes_now == kNumel * 16);  // master, two slots, gradient
    CHECK(place.nvme_account.usage().bytes_now == 0);
  }
  CHECK(place.host_account.usage().bytes_now == 0);
  {
    const auto state =
        rolling("", {.buffers = 2, .pipeline_read = true}).make(place, options_of(64));
    CHECK(std::filesystem::file_size(place.directory.path().string() + "/suite.rank-0.swap") ==
          place.nvme_account.usage().bytes_now + to_size(kSwapPage));
    // Two buffers of the largest part, aligned for transfers past the page cache.
    CHECK(place.host_account.usage().bytes_now < 4 * 8192);
  }
  CHECK(place.host_account.usage().bytes_now == 0);
  CHECK(place.nvme_account.usage().bytes_now == 0);
  CHECK(std::filesystem::is_empty(place.directory.path().string()));
  CHECK_THROWS_AS(rolling("", {.buffers = 1, .pipeline_read = true}).make(place, options_of(64)),
                  ConfigError);
  const auto file_bytes = [&](Ahead ahead) {
    const auto state = rolling("", {.buffers = 2}, ahead).make(place, options_of(64));
    const size_t bytes = place.nvme_account.usage().bytes_now;
    CHECK(std::filesystem::file_size(place.directory.path().string() + "/suite.rank-0.swap") ==
          bytes + to_size(kSwapPage));
    return bytes;
  };
  // Ahead: states twice, gradients once; all of these are less than a page, and so is each header.
  CHECK(2 * file_bytes(Ahead::kYes) == 3 * file_bytes(Ahead::kNo));
  CHECK(place.nvme_account.usage().bytes_now == 0);
}

}  // namespace
}  // namespace ds
