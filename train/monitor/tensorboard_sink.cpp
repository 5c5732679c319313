#include "train/monitor/tensorboard_sink.h"

#include <fmt/format.h>

#include "core/files/crc32.h"
#include "train/monitor/wire_message.h"

namespace ds {
namespace {

// tensorflow/core/util/event.proto and framework/summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
enum SessionLogField { kStatus = 1 };
constexpr int kSessionStart = 1;

// Checksums of data that holds checksums are no good ones, so they are stored changed.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

}  // namespace

std::string tf_record(std::string_view bytes) {
  std::string out;
  append_little_endian<uint64_t>(out, bytes.size());
  append_little_endian(out, masked(crc32c(out)));
  out += bytes;
  append_little_endian(out, masked(crc32c(bytes)));
  return out;
}

TensorboardSink::TensorboardSink(const Options& options)
    : file_(fmt::format("{}/events.out.tfevents.{:010}.{}.{}.0", options.folder,
                        static_cast<int64_t>(options.wall_s), options.host, options.pid)) {}

void TensorboardSink::begin(int64_t samples, double wall_s) {
  WireMessage version;
  version.real(kWallTime, wall_s).text(kFileVersion, "brain.Event:2");
  file_.add(tf_record(version.bytes()));
  WireMessage start;
  start.real(kWallTime, wall_s).integer(kStep, samples + 1);
  start.message(kSessionLog, WireMessage().integer(kStatus, kSessionStart));
  file_.add(tf_record(start.bytes()));
}

void TensorboardSink::add(const MonitorBatch& batch) {
  WireMessage summary;
  for (const MonitorEvent& event : batch.events) {
    WireMessage value;
    value.text(kTag, event.name).real32(kSimpleValue, static_cast<float>(event.value));
    summary.message(kValue, value);
  }
  WireMessage event;
  event.real(kWallTime, batch.wall_s).integer(kStep, batch.samples).message(kSummary, summary);
  file_.add(tf_record(event.bytes()));
}

}  // namespace ds
