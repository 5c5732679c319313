#include "zero/state/swap_lane.h"

#include <utility>

#include "core/device/across.h"

namespace ds {
namespace {

class FileLane final : public SwapLane {
 public:
  explicit FileLane(SwapFileMaker open) : open_(std::move(open)) {}

  Pinning pinning(Pinning asked) const override { return asked; }
  void open(int64_t bytes) override {
    if (open_ == nullptr) {
      throw Unsupported("zero: weights go to NVMe, and this rank was given no swap file");
    }
    swapper_ = open_(bytes);
  }
  bool begins_filled() const override { return false; }

  Passing get(std::string_view key, std::span<std::byte> into, Stream& /*by*/) override {
    return {.ticket = swapper_->get(key, into)};
  }
  Passing put(std::string_view key, std::span<const std::byte> from, const Event& made,
              Stream& /*by*/) override {
    made.wait_on_host();
    return {.ticket = swapper_->put(key, from)};
  }
  void await(const Passing& passing, StagingPool::Lease& buffer, Stream& /*by*/) override {
    try {
      swapper_->wait(passing.ticket);
    } catch (const IoTimeout&) {
      buffer.abandon();
      throw;
    }
  }

 private:
  const SwapFileMaker open_;
  std::unique_ptr<Swapper> swapper_;
};

class MetaLane final : public SwapLane {
 public:
  explicit MetaLane(Stream* disk) : disk_(disk) {}

  Pinning pinning(Pinning /*asked*/) const override { return Pinning::kNone; }
  void open(int64_t /*bytes*/) override {}
  bool begins_filled() const override { return true; }

  Passing get(std::string_view /*key*/, std::span<std::byte> into, Stream& by) override {
    return pass(Link::kNvmeRead, into.size(), {}, by);
  }
  Passing put(std::string_view /*key*/, std::span<const std::byte> from, const Event& made,
              Stream& by) override {
    return pass(Link::kNvmeWrite, from.size(), made, by);
  }
  void await(const Passing& passing, StagingPool::Lease& /*buffer*/, Stream& by) override {
    by.wait(passing.passed);
  }

 private:
  Passing pass(Link link, size_t bytes, const Event& after, const Stream& by) {
    if (disk_ == nullptr) return {};
    disk_->wait(by.mark());
    disk_->wait(after);
    report_across(*disk_, link, bytes);
    return {.passed = disk_->mark()};
  }

  Stream* const disk_;
};

}  // namespace

std::unique_ptr<SwapLane> make_swap_lane(const SwapFileMaker& open) {
  return std::make_unique<FileLane>(open);
}

std::unique_ptr<SwapLane> make_meta_swap_lane(Stream* disk) {
  return std::make_unique<MetaLane>(disk);
}

}  // namespace ds
