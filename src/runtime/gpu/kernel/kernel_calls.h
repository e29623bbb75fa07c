// Prepares calls that one kernel runs: collectives, and batches of Send and Recv.
#pragma once

#include <optional>
#include <span>

#include "runtime/call/requests.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/gpu/launch/device_launcher.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/program/call_chunks.h"
#include "runtime/gpu/program/device_programs.h"
#include "runtime/gpu/program/kernel_arguments.h"
#include "runtime/gpu/program/package_loans.h"
#include "runtime/gpu/resources/symmetric_windows.h"
#include "runtime/program/transfers.h"

namespace sccl::runtime {

class KernelCalls {
 public:
  // All must outlive this object.
  KernelCalls(const Membership& membership, DeviceResources& resources, DeviceLauncher& launcher,
              const DeviceWatch& watch);

  // The plan, the choice and the windows that serve a collective.
  struct Service {
    const Plan& plan;
    const Choice& choice;
    std::optional<SymmetricWindows::Pair> windows;  // in which both buffers lie
    int most_blocks = 0;                            // 0: as many as the rank has
  };
  // `prepared` is a new call, described (CollectiveRecords::describe) after reset_arguments().
  void prepare(PreparedCall& prepared, const CollectiveRequest& request, const Service& service);
  void prepare(PreparedCall& prepared, std::span<const PointToPointRequest> batch);
  static void reset_arguments(PreparedCall& prepared) { KernelArguments::reset(prepared.call); }

 private:
  const Membership& membership_;
  KernelSequence& sequence_;
  PackageLoans loans_;
  DevicePrograms programs_;
  KernelArguments arguments_;
  CallChunks chunks_;
  TransferBatch transfers_;
};

}  // namespace sccl::runtime
