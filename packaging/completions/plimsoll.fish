# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_plimsoll_global_optspecs
    string join \n h/help V/version
end

function __fish_plimsoll_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_plimsoll_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_plimsoll_using_subcommand
    set -l cmd (__fish_plimsoll_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c plimsoll -n "__fish_plimsoll_needs_command" -s h -l help -d 'Print help'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -s V -l version -d 'Print version'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "check" -d 'Check configuration files, and print the limits they come to'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "test" -d 'Run scenario files against the real limiters, in virtual time'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "simulate" -d 'Simulate limits between traffic and a server, in virtual time'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "replay" -d 'Replay access logs under the limits of a file, in virtual time'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "serve" -d 'Serves limits over HTTP, RESP and gRPC'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "gateway" -d 'Passes requests on to other servers, behind limits'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "top" -d 'Shows limits as they stand, in a terminal'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "demo" -d 'Shows an overloaded server without limits and with them, in two minutes'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "health" -d 'Asks a server whether it is ready'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "generate" -d 'Writes completions for shells and manual pages'
complete -c plimsoll -n "__fish_plimsoll_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand check" -s q -l quiet -d 'Print nothing of files that are right'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand check" -l json -d 'Print the limits as JSON: a list with an object for each file'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand check" -l schema -d 'Print the JSON Schema of configuration files, for editors'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand test" -l store -d 'Run against limits in the Redis at this address (`redis://HOST:PORT`)' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand test" -s v -l verbose -d 'Print a line for every scenario, not only for those that fail'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand test" -l schema -d 'Print the JSON Schema of scenario files, for editors'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand test" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -s l -l limit -d 'Test these limits in the place of the one that the file names' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -s s -l seeds -d 'Run each limit with N seeds; figures are means' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -l first-seed -d 'The first of the seeds' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -l access-log -d 'Requests as they came once, from an access log, in the place of the rate of the file' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -l json -d 'Write everything as JSON; `-` writes it to the standard output, in the place of the tables' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -l plot -d 'Draw the first run of each limit; of several simulations, one picture each' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -s c -l compare -d 'Run all other known limits on the same traffic too; nothing is expected of them'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -s q -l quick -d 'One seed, for a first look'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -s e -l explain -d 'Print the decisions of each tested limit with their reasons over time, for the first seed'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -l schema -d 'Print the JSON Schema of simulation files, for editors'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l format -d 'The format of the lines: combined, json, csv, envoy or times; detected unless set' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l duration-unit -d 'The unit of durations without one: s, ms, us or ns; that of the server that writes the format unless set' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l window -d 'The longest time from the arrival of a request to its line for which requests are sorted by arrival' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l deadline -d 'The longest wait of a request in queues; the time-outs of the queues unless set' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l against -d 'Compare with the limits of another file: requests that only one of the two refuses' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l suggest -d 'Report peaks of keys, and for each limit the smallest number that refuses at most this share of its requests [default: 0.1%]' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l max-refused -d 'End with status 1 if a larger share is refused: of all requests, or of those of one limit' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l top -d 'The number of keys of each limit that are reported' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l json -d 'Write the whole report as JSON; `-` writes it to the standard output, in place of the text' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l html -d 'Write the report as a self-contained HTML page with charts' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -l show-keys -d 'Show keys unmasked'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l http -d 'The address for checks, charges and leases over HTTP, which /openapi.json describes' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l resp -d 'The address for clients of Redis: CL.THROTTLE, PLIMSOLL.TAKE' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l grpc -d 'The address for gRPC: Envoy\'s rate-limit service, health' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l admin -d 'The address for operators: /healthz, /readyz, /metrics, /limits' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-config -d 'A directory with configurations of the reference server (envoyproxy/ratelimit); all files below it are read, and read again when they change. May be given several times' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-store -d 'A Redis in which a fleet counts together, such as `redis://127.0.0.1:6379`' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-lease -d 'The number of seconds after which a slot is freed that a descriptor has not returned with negative hits' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l token -d 'The token that clients must send (Bearer over HTTP, AUTH over RESP)' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l state -d 'Saves the states of limits in memory in this directory, so that a restart is not a free burst (`serve.state_dir` in a file)' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l state-every -d 'The interval at which states are saved, besides at the end: a crash loses the usage since then (`serve.state_every`) [default: 30s]' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l grpc-age -d 'The age, give or take ten per cent, at which a gRPC connection is closed gracefully, so that proxies spread over servers that were added (`serve.grpc_age`) [default: 24h]' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l otlp -d 'Sends a span of each decision to this collector over OTLP (http/protobuf); without an address to that of `OTEL_EXPORTER_OTLP_ENDPOINT`, or to `http://localhost:4318`. The other variables `OTEL_*` are honoured' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l admin-token -d 'The token that operators must send. Required if the admin port is not on a loopback address' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l drain -d 'The time for which requests in progress may continue after it begins to stop' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l log -d 'The form of log lines, which go to the standard error. `PLIMSOLL_LOG` says which there are: `debug`, `warn`, `plimsoll_engine=debug`' -r -f -a "text\t'For people'
json\t'For programs: one object a line'"
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-merge -d 'Several files may describe one domain (`MERGE_DOMAIN_CONFIG` of the reference server)'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-shadow -d 'Refuse nothing, only count (`SHADOW_MODE` of the reference server)'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-quota -d 'Of all limits of a request one is enough (`QUOTA_MODE` of the reference server)'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -l envoy-compat -d 'Serve /json and /healthcheck, /rlconfig and /stats on the admin port, and its statistics and header fields too'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -l to -d 'The server behind it, such as `http://127.0.0.1:9000`' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -l listen -d 'The address to listen on: that of the file, or else 127.0.0.1:8080' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -l admin -d 'The address for operators: the live page, /healthz, /readyz, /metrics, /limits; `off` closes it' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -l admin-token -d 'The token that operators must send. Required if the admin port is not on a loopback address' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -l drain -d 'The time for which requests in progress may continue after it begins to stop' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -l log -d 'The form of log lines, which go to the standard error. `PLIMSOLL_LOG` says which there are: `debug`, `warn`, `plimsoll_engine=debug`' -r -f -a "text\t'For people'
json\t'For programs: one object a line'"
complete -c plimsoll -n "__fish_plimsoll_using_subcommand gateway" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand top" -l admin-token -d 'The token of the admin port, where it has one' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand top" -l once -d 'Prints a plain table and ends: one limit a line, for scripts and pipes'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand demo" -l seconds -d 'The duration of both runs together, in seconds' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand demo" -l report -d 'Draws the report into this file, as SVG that needs nothing else' -r -F
complete -c plimsoll -n "__fish_plimsoll_using_subcommand demo" -l admin -d 'The address of the live page: 127.0.0.1:8422, or another port if that is taken, unless set' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand demo" -l open -d 'Opens the live page in the browser of this machine'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand health" -l admin -d 'The admin port of the server' -r
complete -c plimsoll -n "__fish_plimsoll_using_subcommand health" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand generate" -s h -l help -d 'Print help'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "check" -d 'Check configuration files, and print the limits they come to'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "test" -d 'Run scenario files against the real limiters, in virtual time'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "simulate" -d 'Simulate limits between traffic and a server, in virtual time'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "replay" -d 'Replay access logs under the limits of a file, in virtual time'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "serve" -d 'Serves limits over HTTP, RESP and gRPC'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "gateway" -d 'Passes requests on to other servers, behind limits'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "top" -d 'Shows limits as they stand, in a terminal'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "demo" -d 'Shows an overloaded server without limits and with them, in two minutes'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "health" -d 'Asks a server whether it is ready'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "generate" -d 'Writes completions for shells and manual pages'
complete -c plimsoll -n "__fish_plimsoll_using_subcommand help; and not __fish_seen_subcommand_from check test simulate replay serve gateway top demo health generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
