<powershell>
[string]$EKSBinDir = "$env:ProgramFiles\Amazon\EKS"
[string]$EKSBootstrapScriptName = 'Start-EKSBootstrap.ps1'
[string]$EKSBootstrapScriptFile = "$EKSBinDir\$EKSBootstrapScriptName"
Set-TimeZone -Id UTC
& $EKSBootstrapScriptFile -EKSClusterName "prod" -APIServerEndpoint "https://example.com" -Base64ClusterCA "Q0E=" -DNSClusterIP "10.100.0.10" -KubeletExtraArgs "--node-labels=os=windows --register-with-taints=os=windows:NoSchedule" 3>&1 4>&1 5>&1 6>&1
</powershell>
