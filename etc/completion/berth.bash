# Completion of berth(1) for bash. Needs nothing but bash; namespaces and pods come from kubectl, where there is one that answers at once.

# The options of this command line that say whom to ask.
_berth_kubectl() {
    local i options=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            --kubeconfig | --context)
                # bash takes the = of --context=NAME for a word.
                local value=${COMP_WORDS[i + 1]}
                [ "$value" != = ] || value=${COMP_WORDS[i + 2]}
                [ -z "$value" ] || options+=("${COMP_WORDS[i]}=$value")
                ;;
        esac
    done
    kubectl --request-timeout=2s "${options[@]}" "$@" 2> /dev/null
}

_berth_namespaces() { _berth_kubectl get namespaces -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'; }

# Pods of the namespace of -n by their names, else NAMESPACE/ and then NAMESPACE/NAME.
_berth_pods() {
    local i namespace=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            -n) namespace=${COMP_WORDS[i + 1]} ;;
            --namespace)
                namespace=${COMP_WORDS[i + 1]}
                [ "$namespace" != = ] || namespace=${COMP_WORDS[i + 2]}
                ;;
        esac
    done
    if [ -n "$namespace" ]; then
        _berth_kubectl get pods -n "$namespace" -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
    elif [[ $1 == */* ]]; then
        _berth_kubectl get pods -n "${1%%/*}" -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}'
    else
        _berth_kubectl get pods -n default -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
        _berth_namespaces | sed 's,$,/,'
    fi
}

_berth() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i
    COMPREPLY=()
    if [ "$word" = = ]; then
        word=
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            status | explain | doctor | config) command=${COMP_WORDS[i]} && break ;;
        esac
    done
    local IFS=$' \t\n'
    local access='--config --kubeconfig --context --output --color --help'
    local words=
    case $before in
        -c | --config | --kubeconfig | -f | --file)
            compopt -o filenames 2> /dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        -o | --output) words='text json' ;;
        --color) words='auto always never' ;;
        -n | --namespace) words=$(_berth_namespaces) ;;
        --context) words=$(kubectl config get-contexts -o name 2> /dev/null) ;;
        *)
            case $command,$word in
                ,*) words='status explain doctor config --help --version' ;;
                status,*) words="$access --namespace --watch" ;;
                explain,-*) words="$access --namespace --file --watch" ;;
                explain,*) words=$(_berth_pods "$word") ;;
                doctor,*) words=$access ;;
                config,*)
                    if [ "$before" = config ]; then
                        words='check --help'
                    else
                        compopt -o filenames 2> /dev/null
                        mapfile -t COMPREPLY < <(compgen -f -- "$word")
                        return
                    fi
                    ;;
            esac
            ;;
    esac
    # Not by compgen -W, which would expand what a kubeconfig names its contexts.
    local one
    for one in ${words//$'\n'/ }; do
        [[ $one != "$word"* ]] || COMPREPLY+=("$one")
    done
    # A namespace is followed by its pods, not by a space.
    if [ ${#COMPREPLY[@]} = 1 ] && [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2> /dev/null; fi
}

complete -F _berth berth
