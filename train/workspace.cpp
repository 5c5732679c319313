#include "train/workspace.h"

#include "core/device/background_log.h"

namespace ds {

Workspace::Workspace(const WorkspaceOptions& options, const Peers& peers)
    : device_(options.device),
      tiers_(make_tiers(device_, options.stands_for, options.blocks)),
      pinned_beside_(options.pinned_beside),
      accounts_{MemoryAccount(options.limits.device, "device memory"),
                MemoryAccount(options.limits.host, "host memory"), MemoryAccount(),
                MemoryAccount()},
      heap_(tiers_->device(), nth(accounts_, Tier::kDevice)),
      shared_(has_device() ? tiers_->device() : peers.tokens().memory(),
              nth(accounts_, Tier::kDevice)),
      beside_(tiers_->host(), nth(accounts_, Tier::kHost)),
      pinned_(tiers_->pinned(), nth(accounts_, Tier::kPinned)),
      pool_(tiers_->threads(options.threads)),
      stream_(options_of_stream(options.trace)),
      host_stream_({.device = tiers_->host_device(),
                    .memory = &beside_,
                    .pool = &pool_,
                    .trace = has_device() && options.host_trace != nullptr ? options.host_trace
                                                                           : options.trace}),
      peers_(peers) {
  if (options.overlaps_communication) {
    add_communication(options);
  } else if (has_device()) {
    side_.passes.emplace(options_of_stream(options.communication_trace));
  }
  if (has_device()) {
    side_.copies.emplace(options_of_stream(nullptr));
    side_.saves.emplace(options_of_stream(options.saves_trace));
    side_.fetches.emplace(options_of_stream(options.fetches_trace));
  }
  if (tiers_->has_disk_clock()) side_.disk.emplace(options_of_stream(options.disk_trace));
  if (options.updater_threads > 0) add_updater(options);
  if (options.beside != nullptr) report_background_to(*options.beside);
}

void Workspace::report_background_to(BackgroundLog& log) {
  for (Stream* const stream : {&stream_, &host_stream_}) report_background(*stream, log);
  for (std::optional<Stream>* const stream : {&side_.communication, &side_.passes, &side_.copies,
                                              &side_.saves, &side_.fetches, &side_.updater}) {
    if (*stream) report_background(**stream, log);
  }
}

void Workspace::add_updater(const WorkspaceOptions& options) {
  Trace* const trace = has_device() ? options.updater_trace : options.trace;
  updater_pool_.emplace(tiers_->threads(options.updater_threads));
  side_.updater.emplace(StreamOptions{.device = tiers_->host_device(),
                                      .memory = &beside_,
                                      .pool = &*updater_pool_,
                                      .trace = tiers_->trace_beside(trace)});
}

// A CPU's stream does at once what it is given, and so a thread has to do it.
void Workspace::add_communication(const WorkspaceOptions& options) {
  side_.communication.emplace(options_of_stream(options.communication_trace));
  if (device_ == Device::cpu()) talk_.emplace(heap_, options.threads);
}

StreamOptions Workspace::options_of_stream(Trace* trace) {
  return {.device = device_,
          .memory = &heap_,
          .pool = &pool_,
          .trace = trace,
          .stands_for = tiers_->stands_for()};
}

RankResources Workspace::resources() {
  return {.stream = stream_,
          .host = host_stream_,
          .peers = peers_,
          .comm_memory = shared_,
          .communication = side_.communication ? &*side_.communication : nullptr,
          .ring_messages = side_.communication ? &*side_.communication
                                               : (side_.passes ? &*side_.passes : nullptr),
          .comm_thread = talk_ ? &talk_->thread : nullptr,
          .copies = side_.copies ? &*side_.copies : nullptr,
          .pinned = has_device() ? &pinned_ : nullptr,
          .saves = side_.saves ? &*side_.saves : nullptr,
          .fetches = side_.fetches ? &*side_.fetches : nullptr,
          .disk = side_.disk ? &*side_.disk : nullptr,
          .nvme = &nth(accounts_, Tier::kNvme),
          .updater = side_.updater ? &*side_.updater : nullptr,
          .results_late = device_.kind == Device::Kind::kCuda ? 1 : 0};
}

TierUsage Workspace::usage() const {
  TierUsage usage;
  for (int tier = 0; tier < kTiers; ++tier) nth(usage, tier) = nth(accounts_, tier).usage();
  MemoryUsage& pinned = nth(usage, Tier::kPinned);
  pinned.bytes_now += pinned_beside_;
  pinned.bytes_peak += pinned_beside_;
  nth(pinned.tag_bytes_now, MemoryTag::kScratch) += pinned_beside_;
  nth(pinned.tag_bytes_at_peak, MemoryTag::kScratch) += pinned_beside_;
  return usage;
}

}  // namespace ds
