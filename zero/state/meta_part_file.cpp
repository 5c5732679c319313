#include "zero/state/meta_part_file.h"

#include <utility>

#include "core/memory/rounding.h"
#include "core/values/index.h"

namespace ds {

Event MetaDisk::pass(Link link, int64_t bytes, const Stream& stream) const {
  return pass(link, bytes, stream.mark());
}

Event MetaDisk::pass(Link link, int64_t bytes, const Event& after) const {
  if (disk_ == nullptr) return {};
  disk_->wait(after);
  report_across(*disk_, link, to_size(bytes));
  return disk_->mark();
}

void MetaAhead::start(int part, Stream& stream) {
  while (std::cmp_greater_equal(worked_.size(), buffers_)) {
    write();
    stream.wait(worked_.front().written);
    worked_.pop_front();
  }
  nth(read_, part) = disk_.pass(Link::kNvmeRead, bytes(part), stream);
  write();
}

void MetaAhead::work_on(int part, Stream& stream, const Work& work) {
  stream.wait(nth(read_, part));
  work(part, stream);
  worked_.push_back({.bytes = bytes(part), .at = stream.mark()});
}

// After reads that are asked for at the same time: that is when the work is over.
void MetaAhead::write() {
  for (Worked& worked : worked_) {
    if (std::exchange(worked.is_given, true)) continue;
    worked.written = disk_.pass(Link::kNvmeWrite, worked.bytes, worked.at);
  }
}

MetaPartFile::MetaPartFile(Layout of, Stream& host, Stream* disk)
    : PartFile(std::move(of)),
      host_(host),
      disk_(disk),
      buffers_(Tensor::empty(
          {layout().rolling.buffers * round_up(layout().buffer_bytes, kUncachedAlignment) +
           kUncachedAlignment},
          DType::kU8, host, MemoryTag::kScratch)) {}

void MetaPartFile::visit(const RollingPlan& plan, Gradients gradients, const Work& work) {
  const std::vector<RollingPieces> all = pieces(gradients);
  std::vector<Event> moved(to_size(plan.buffers));
  const auto pass = [&](const RollingAction& action, Link link) {
    for (const RollingPiece& piece : nth(all, action.part)) {
      if (link == Link::kNvmeWrite && !piece.is_written) continue;
      nth(moved, action.buffer) = disk_.pass(link, piece.bytes, host_);
    }
  };
  for (const RollingAction& action : plan.actions) {
    switch (action.step) {
      case RollingStep::kRead:
        pass(action, Link::kNvmeRead);
        break;
      case RollingStep::kWork:
        work(action.part, static_cast<std::byte*>(buffers_.address()));
        break;
      case RollingStep::kWrite:
        pass(action, Link::kNvmeWrite);
        break;
      case RollingStep::kAwaitRead:
      case RollingStep::kAwaitWrite:
        host_.wait(nth(moved, action.buffer));
        break;
    }
  }
}

void MetaPartFile::store(int /*part*/, const Tensor& gradient, Stream& stream) {
  report_across(stream, Link::kToHost, gradient.bytes());
  const Event written = disk_.pass(Link::kNvmeWrite, narrow<int64_t>(gradient.bytes()), stream);
  if (!layout().rolling.pipeline_write) stream.wait(written);
}

void MetaPartFile::load(int /*part*/, const Tensor& gradient, Stream& stream) {
  stream.wait(disk_.pass(Link::kNvmeRead, narrow<int64_t>(gradient.bytes()), stream));
  report_across(stream, Link::kToDevice, gradient.bytes());
}

AheadParts& MetaPartFile::work_ahead() {
  std::vector<int64_t> bytes;
  for (int part = 0; part < count(); ++part) bytes.push_back(frame(part).state_bytes());
  return ahead_.emplace(std::move(bytes), disk_, layout().rolling.buffers);
}

void MetaPartFile::store_ahead(int part, const Tensor& gradient, Stream& stream) {
  store(part, gradient, stream);
  ahead_->start(part, stream);
}

}  // namespace ds
