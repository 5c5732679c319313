// The conformance suite of MemoryResource: every resource and every decorator passes it. What a
// resource promises beyond it (a limit, reuse, a plan) is tested where the resource is.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/memory/resource.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds::testing {

enum class Contents : uint8_t { kBytes, kAddressesOnly };  // the latter: of the meta device

// Blocks of many sizes, allocated and freed in an order that depends on the seed. Alive ones never
// overlap, are aligned, and keep what was written to them.
class MemorySuite {
 public:
  MemorySuite(MemoryResource& memory, Contents contents) : memory_(memory), contents_(contents) {}

  void run(uint64_t seed) {
    const Rng rng(seed, "memory suite");
    for (uint64_t turn = 0; turn < 400; ++turn) {
      const uint64_t draw = rng.bits(turn);
      if (alive_.size() < 20 && draw % 3 != 0) {
        take(kSizes[draw / 3 % kSizes.size()], static_cast<MemoryTag>(draw / 64 % kMemoryTags));
      } else if (!alive_.empty()) {
        give_back(draw / 3 % alive_.size());
      }
    }
    while (!alive_.empty()) give_back(alive_.size() / 2);
  }

 private:
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
    MemoryTag tag{};
    std::byte mark{};
  };
  static constexpr std::array<size_t, 8> kSizes{1, 63, 64, 65, 1000, 4096, 100'000, 3'000'000};

  void take(size_t bytes, MemoryTag tag) {
    Block block{static_cast<std::byte*>(memory_.allocate(bytes, tag)), bytes, tag,
                static_cast<std::byte>(++count_)};
    REQUIRE(block.data != nullptr);
    REQUIRE(reinterpret_cast<uintptr_t>(block.data) % kMemoryAlignment == 0);
    for (const Block& other : alive_) {
      const bool apart =
          block.data + block.bytes <= other.data || other.data + other.bytes <= block.data;
      REQUIRE(apart);
    }
    if (contents_ == Contents::kBytes) std::memset(block.data, static_cast<int>(block.mark), bytes);
    alive_.push_back(block);
  }

  void give_back(size_t index) {
    const Block block = alive_[index];
    if (contents_ == Contents::kBytes) {
      const bool kept = std::all_of(block.data, block.data + block.bytes,
                                    [&](std::byte value) { return value == block.mark; });
      REQUIRE(kept);
    }
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(index));
    memory_.deallocate(block.data, block.bytes, block.tag);
  }

  MemoryResource& memory_;
  const Contents contents_;
  std::vector<Block> alive_;
  int count_ = 0;
};

}  // namespace ds::testing
