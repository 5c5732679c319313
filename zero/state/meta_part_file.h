// MetaPartFile: the twin of SwappedPartFile in a dry run. It takes the memory of its buffers, and
// tells the clock of the disk what would pass it, in the order in which that would.
#pragma once

#include <deque>
#include <vector>

#include "core/device/across.h"
#include "zero/state/part_file.h"

namespace ds {

// The clock of a swap file; null: nobody asks what it takes.
class MetaDisk {
 public:
  explicit MetaDisk(Stream* disk) : disk_(disk) {}

  // So many bytes pass when the stream has come so far. Returns the end of that.
  Event pass(Link link, int64_t bytes, const Stream& stream) const;
  // So do they when the event is reached.
  Event pass(Link link, int64_t bytes, const Event& after) const;

 private:
  Stream* const disk_;
};

// The twin of RollingAhead: parts in a swap file that are worked on ahead of the norm.
class MetaAhead final : public AheadParts {
 public:
  // bytes: of the state of each part.
  MetaAhead(std::vector<int64_t> bytes, const MetaDisk& disk, int buffers)
      : disk_(disk), buffers_(buffers), bytes_(std::move(bytes)), read_(bytes_.size()) {}

  // Begins to read the part when the stream has come so far, and there is a buffer.
  void start(int part, Stream& stream);

  int count() const override { return narrow<int>(bytes_.size()); }
  int64_t bytes(int part) const override { return nth(bytes_, part); }
  void work_on(int part, Stream& stream, const Work& work) override;
  void keep(int /*part*/) override { write(); }
  void undo(int /*part*/, Stream& /*stream*/) override {}

 private:
  // What was worked on and has a buffer until it is written.
  struct Worked {
    int64_t bytes = 0;
    Event at{}, written{};
    bool is_given = false;  // to the disk
  };
  void write();

  const MetaDisk disk_;
  const int buffers_;
  const std::vector<int64_t> bytes_;
  std::vector<Event> read_;  // by part
  std::deque<Worked> worked_;
};

class MetaPartFile final : public PartFile {
 public:
  MetaPartFile(Layout layout, Stream& host, Stream* disk);

  void visit(const RollingPlan& plan, Gradients gradients, const Work& work) override;
  void store(int part, const Tensor& gradient, Stream& stream) override;
  void load(int part, const Tensor& gradient, Stream& stream) override;
  AheadParts& work_ahead() override;
  void store_ahead(int part, const Tensor& gradient, Stream& stream) override;
  std::byte* buffer_ahead() const override { return static_cast<std::byte*>(buffers_.address()); }

 private:
  Stream& host_;
  const MetaDisk disk_;
  const Tensor buffers_;
  std::optional<MetaAhead> ahead_;
};

}  // namespace ds
