#include "simulation/work_times.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/philox.h"

namespace cohort {
namespace {

constexpr std::uint64_t kJitterPurpose = 0x766a6974;   // "vjit"
constexpr std::uint64_t kFailurePurpose = 0x76666169;  // "vfai"

PhiloxBlock draw(std::uint64_t seed, std::uint64_t purpose, int worker, std::uint64_t number,
                 std::uint32_t which = 0) {
  return philox(philoxKey(seed, purpose),
                {static_cast<std::uint32_t>(worker), static_cast<std::uint32_t>(number),
                 static_cast<std::uint32_t>(number >> 32), which});
}

// -ln(1 - u/2^53) for 53 bits u, by the series of the inverse hyperbolic tangent: of additions, products and quotients alone, which
// every machine rounds alike.
double minusLogarithm(std::uint64_t bits) {
  constexpr double kLn2 = 0.693147180559945309417;
  const double x = static_cast<double>((std::uint64_t{1} << 53) - bits) * 0x1p-53;  // in (0, 1]
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);  // exact, in [1/2, 1)
  const double s = (mantissa - 1) / (mantissa + 1);  // in [-1/3, 0)
  double sum = 0;
  double power = s;
  for (int k = 1; k <= 35; k += 2) {
    sum += power / k;
    power *= s * s;
  }
  return -(2 * sum + exponent * kLn2);
}

std::uint64_t bits53(const PhiloxBlock& block) {
  return (std::uint64_t{block[0]} << 21) | (block[1] >> 11);
}

}  // namespace

double exponentialNumber(std::uint64_t bits) {
  return minusLogarithm(bits >> 11);
}

double jitterFactor(const ComputeModel& model, std::uint64_t seed, int worker, Step step) {
  if (model.jitter == 0) return 1;
  const PhiloxBlock block = draw(seed, kJitterPurpose, worker, static_cast<std::uint64_t>(step));
  switch (model.distribution) {
    case ComputeModel::Distribution::Normal: {
      constexpr double kDeviation =
          0.81649658092772603273;  // of the sum of eight uniform numbers in [0, 1): √(8/12)
      double sum = 0;
      for (const std::uint32_t word : block) sum += (word >> 16) + (word & 0xffffU) + 1.0;
      return 1 + model.jitter * (sum * 0x1p-16 - 4) / kDeviation;
    }
    case ComputeModel::Distribution::Uniform: {
      constexpr double kHalfWidth = 1.7320508075688772935;  // in deviations: √3
      const double uniform = static_cast<double>(bits53(block)) * 0x1p-53;
      return 1 + model.jitter * kHalfWidth * (2 * uniform - 1);
    }
    case ComputeModel::Distribution::Exponential:
      break;
  }
  return 1 - model.jitter + model.jitter * minusLogarithm(bits53(block));
}

WorkTimes::WorkTimes(const ClusterModel& model, const ClusterPlaces& places, std::uint64_t seed,
                     const std::string& source)
    : model_(model.compute), seed_(seed) {
  for (const int place : places.workers) {
    const ClusterPlaces::Host& host = places.hosts[static_cast<std::size_t>(place)];
    workers_.push_back({.speed = host.speed, .cores = host.cores / host.workers});
  }
  const auto each = [&](const WorkerChoice& who, auto&& add) {
    for (const int worker : places.chosen(who, source)) add(workers_[static_cast<std::size_t>(worker)]);
  };
  for (const StragglerModel& slow : model.stragglers) {
    each(slow.who, [&](Worker& worker) {
      worker.slow.push_back({.factor = slow.factor,
                             .from = virtualTime(slow.from),
                             .until = std::isfinite(slow.until) ? virtualTime(slow.until) : kNever});
    });
  }
  for (const FailureModel& failure : model.failures) {
    each(failure.who, [&](Worker& worker) {
      const VirtualTime back = failure.back ? virtualTime(*failure.back) : kNever;
      if (failure.at) {
        const VirtualTime at = virtualTime(*failure.at);
        worker.outages.push_back({.begin = at, .end = back == kNever ? kNever : at + back});
      } else {
        worker.repeated.push_back({.mean = *failure.every, .back = back});
      }
    });
  }
}

VirtualTime WorkTimes::compute(int worker, Step step, const Grains& grains, VirtualTime start) const {
  const Worker& own = of(worker);
  const double rounds =
      own.cores < 1 ? grains.count / own.cores : std::ceil(grains.count / std::floor(own.cores));
  double seconds =
      model_.secondsPerStep + model_.secondsPerSample * static_cast<double>(grains.samples) * rounds;
  seconds /= own.speed;
  for (const Slow& slow : own.slow) {
    if (start >= slow.from && start < slow.until) seconds *= slow.factor;
  }
  return virtualTime(seconds * jitterFactor(model_, seed_, worker, step));
}

std::optional<WorkTimes::Outage> WorkTimes::nextOutage(int worker, VirtualTime from, int before) const {
  const Worker& own = of(worker);
  std::optional<Outage> next;
  const auto consider = [&](const Outage& outage) {
    if (outage.begin >= from && (!next || outage.begin < next->begin)) next = outage;
  };
  for (const Outage& outage : own.outages) consider(outage);
  for (std::size_t i = 0; i < own.repeated.size(); ++i) {
    const Repeated& repeated = own.repeated[i];
    const PhiloxBlock block = draw(seed_, kFailurePurpose, worker, static_cast<std::uint64_t>(before),
                                   static_cast<std::uint32_t>(i));
    const VirtualTime begin = from + virtualTime(repeated.mean * minusLogarithm(bits53(block)));
    consider({.begin = begin, .end = repeated.back == kNever ? kNever : begin + repeated.back});
  }
  return next;
}

}  // namespace cohort
